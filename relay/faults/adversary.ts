/** Faults of one connection besides loss and delay: false answers, silence, and a slow line. */

import type { Frame } from '../messages.ts';
import { Meter } from '../rates.ts';
import { createDraws } from './plan.ts';
import type { FaultSettings } from './settings.ts';

export interface Adversary {
  /** Whether to drop the next published event without an answer. */
  swallows(): boolean;
  /** Whether to refuse the next published event as rate-limited. */
  throttles(nowMs: number): boolean;
  /** Whether to answer the next event with OK true and drop it. */
  discards(): boolean;
  /** Whether to disconnect after this frame. */
  hangsUp(): boolean;
  /** Whether to answer the next REQ with EOSE at once, as if nothing were stored. */
  liesAtEose(): boolean;
  /** Whether to withhold the next EOSE. */
  stallsEose(): boolean;
  /** Whether to close the next REQ at once. */
  closesReq(): boolean;
  /** Returns false versions of an event's JSON, to send before the true one. */
  twinsOf(json: Buffer): readonly Buffer[];
}

const MINUTE_MS = 60_000;
const YEAR_SECONDS = 31_536_000;

/** Offset of the last hex digit of the signature from the end: `sig` is the last field. */
const SIG_END = '"}'.length + 1;

/** Returns the event with one digit of the signature changed; the id still matches. */
function forge(json: Buffer): Buffer {
  const twin = Buffer.from(json);
  const at = twin.length - SIG_END;
  twin.write(json.toString('latin1', at, at + 1) === '0' ? '1' : '0', at, 'latin1');
  return twin;
}

/** Returns the event dated a year later; neither id nor signature matches. */
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

/** A timer: calls `call` after `ms` milliseconds; the returned function cancels it. */
export type SetTimer = (call: () => void, ms: number) => () => void;

export class Line {
  readonly #bytesPerSecond: number;
  readonly #send: (frame: Frame) => void;
  readonly #queue: Frame[] = [];
  readonly #setTimer: SetTimer;
  #cancel: (() => void) | undefined;
  #bytes = 0;

  constructor(bytesPerSecond: number, send: (frame: Frame) => void, setTimer: SetTimer) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#send = send;
    this.#setTimer = setTimer;
  }

  /** Bytes not sent yet. */
  get bytes(): number {
    return this.#bytes;
  }

  push(frame: Frame): void {
    this.#queue.push(frame);
    this.#bytes += frame.bytes;
    if (!this.#cancel) this.#advance();
  }

  close(): void {
    this.#cancel?.();
    this.#queue.length = 0;
    this.#bytes = 0;
  }

  #advance(): void {
    const frame = this.#queue[0];
    this.#cancel = undefined;
    if (!frame) return;
    const ms = (frame.bytes / this.#bytesPerSecond) * 1000;
    this.#cancel = this.#setTimer(() => {
      this.#queue.shift();
      this.#bytes -= frame.bytes;
      this.#send(frame);
      this.#advance();
    }, ms);
  }
}
