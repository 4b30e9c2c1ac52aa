/** What a faulty or dishonest relay does on one connection beyond losing and delaying: each from its own seeded stream. */
import { Meter } from '../rates.ts';
import { createDraws } from './draws.ts';
import type { FaultSettings } from './fault.ts';

export interface Misdeeds {
  /** Whether the next published event vanishes on arrival. */
  swallows(): boolean;
  /** Whether the next published event is one too many. */
  throttles(nowMs: number): boolean;
  /** Whether the next REQ is told at once that nothing is stored. */
  liesAtEose(): boolean;
  /** False versions of an EVENT frame, to go out before the true one. */
  twinsOf(frame: Buffer): readonly Buffer[];
}

const MINUTE_MS = 60_000;
const YEAR_SECONDS = 31_536_000;

/** Where the last hex digit of the signature is: `sig` is the last field we write. */
const SIG_END = '"}]'.length + 1;

/** The frame with one digit of the signature changed: the id still fits. */
function forge(frame: Buffer): Buffer {
  const twin = Buffer.from(frame);
  const at = twin.length - SIG_END;
  twin.write(frame.toString('latin1', at, at + 1) === '0' ? '1' : '0', at, 'latin1');
  return twin;
}

/** The frame dated a year later; neither id nor signature fits. */
const postdate = (frame: Buffer): Buffer =>
  Buffer.from(
    frame
      .toString()
      .replace(/"created_at":(\d+)/, (_, time) => `"created_at":${Number(time) + YEAR_SECONDS}`),
  );

export function createMisdeeds(
  settings: FaultSettings,
  seed: number,
  connection: number,
): Misdeeds {
  const chance = (name: string, share = 0): (() => boolean) => {
    const draws = createDraws(seed, `${name}:${connection}`);
    return () => share > 0 && draws() < share;
  };
  const { throttle } = settings;
  const meter = new Meter(throttle === undefined ? [] : [{ count: throttle, periodMs: MINUTE_MS }]);
  const [forges, postdates] = [
    chance('forge', settings.forge),
    chance('postdate', settings.postdate),
  ];
  return {
    swallows: chance('swallow', settings.swallow),
    throttles: (nowMs) => !meter.takes('', nowMs),
    liesAtEose: chance('falseEose', settings.falseEose),
    twinsOf: (frame) => [
      ...(forges() ? [forge(frame)] : []),
      ...(postdates() ? [postdate(frame)] : []),
    ],
  };
}
