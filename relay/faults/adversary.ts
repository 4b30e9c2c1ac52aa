/** Faults of one connection beyond losing and delaying: lies, silence, and a slow line. */

import type { Frame } from '../messages.ts';
import { Meter } from '../rates.ts';
import { createDraws } from './plan.ts';
import type { FaultSettings } from './settings.ts';

export interface Adversary {
  /** Whether the next published event vanishes on arrival. */
  swallows(): boolean;
  /** Whether the next published event is one too many. */
  throttles(nowMs: number): boolean;
  /** Whether the next event is accepted in words only. */
  discards(): boolean;
  /** Whether the frame just read is the last one. */
  hangsUp(): boolean;
  /** Whether the next REQ is told at once that nothing is stored. */
  liesAtEose(): boolean;
  /** Whether the next EOSE that is due never comes. */
  stallsEose(): boolean;
  /** Whether the next REQ is closed at once. */
  closesReq(): boolean;
  /** False versions of an event's JSON, to go out before the true one. */
  twinsOf(json: Buffer): readonly Buffer[];
}

const MINUTE_MS = 60_000;
const YEAR_SECONDS = 31_536_000;

/** Where the last hex digit of the signature is: `sig` is the last field we write. */
const SIG_END = '"}'.length + 1;

/** The event with one digit of the signature changed: the id still fits. */
function forge(json: Buffer): Buffer {
  const twin = Buffer.from(json);
  const at = twin.length - SIG_END;
  twin.write(json.toString('latin1', at, at + 1) === '0' ? '1' : '0', at, 'latin1');
  return twin;
}

/** The event dated a year later; neither id nor signature fits. */
const postdate = (json: Buffer): Buffer =>
  Buffer.from(
    json
      .toString()
      .replace(/"created_at":(\d+)/, (_, time) => `"created_at":${Number(time) + YEAR_SECONDS}`),
  );

export function createAdversary(
  settings: FaultSettings,
  seed: number,
  connection: number,
): Adversary {
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
    discards: chance('discard', settings.discard),
    hangsUp: chance('disconnect', settings.disconnect),
    liesAtEose: chance('falseEose', settings.falseEose),
    stallsEose: chance('noEose', settings.noEose),
    closesReq: chance('closeReqs', settings.closeReqs),
    twinsOf: (json) => [
      ...(forges() ? [forge(json)] : []),
      ...(postdates() ? [postdate(json)] : []),
    ],
  };
}

export class Line {
  readonly #bytesPerSecond: number;
  readonly #send: (frame: Frame) => void;
  readonly #queue: Frame[] = [];
  #timer: NodeJS.Timeout | undefined;
  #bytes = 0;

  constructor(bytesPerSecond: number, send: (frame: Frame) => void) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#send = send;
  }

  /** Not sent yet. */
  get bytes(): number {
    return this.#bytes;
  }

  push(frame: Frame): void {
    this.#queue.push(frame);
    this.#bytes += frame.bytes;
    if (!this.#timer) this.#advance();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#queue.length = 0;
    this.#bytes = 0;
  }

  #advance(): void {
    const frame = this.#queue[0];
    this.#timer = undefined;
    if (!frame) return;
    const ms = (frame.bytes / this.#bytesPerSecond) * 1000;
    this.#timer = setTimeout(() => {
      this.#queue.shift();
      this.#bytes -= frame.bytes;
      this.#send(frame);
      this.#advance();
    }, ms);
  }
}
