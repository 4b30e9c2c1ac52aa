/**
 * Rate limits of one relay: how fast to send events (token bucket), how much it may send us, and how many events of one
 * author count.
 */
import { type Clock, deferred, unlessAborted } from '../../base/async.ts';
import { Recent } from '../../base/bounded.ts';

export interface BucketOptions {
  readonly clock: Clock;
  readonly random: () => number;
  /** Initial rate; `Infinity` for none until the relay asks for one. */
  readonly perMinute: number;
}

/** Number of refusals when a token was drawn, so that a burst refused as a whole counts once. */
export type Token = number;

/** Assumed rate of a public relay until its answers show more. */
export const PUBLIC_EVENTS_PER_MINUTE = 5;
const BURST = 5;
/** Lowest rate: a relay is always tried this often. */
const LEAST_PER_MINUTE = 0.5;
const MINUTE_MS = 60_000;

export class TokenBucket {
  readonly #clock: Clock;
  readonly #random: () => number;
  #perMinute: number;
  #tokens: number;
  /** When `#tokens` was last updated; in the future during a pause. */
  #countedMs: number;
  #refusals = 0;
  /** Since when every token had to be waited for; undefined after a token was available at once. */
  #busySinceMs: number | undefined;
  #waiting = 0;
  /** Resolves when the last caller in the queue has its token or has left. */
  #line: Promise<void> = Promise.resolve();
  #patientLine: Promise<void> = Promise.resolve();
  #patient = 0;
  #minute = { startMs: 0, drawn: 0, drawnBefore: 0 };

  constructor({ clock, random, perMinute }: BucketOptions) {
    this.#clock = clock;
    this.#random = random;
    this.#perMinute = perMinute;
    this.#tokens = this.#capacity();
    this.#countedMs = clock.now();
  }

  get perMinute(): number {
    return this.#perMinute;
  }

  /** Wait for the next token if the queue is empty. */
  get waitMs(): number {
    return this.#waitForMs(1);
  }

  #waitForMs(tokens: number): number {
    this.#refill();
    const pauseMs = Math.max(0, this.#countedMs - this.#clock.now());
    if (this.#tokens >= tokens) return pauseMs;
    return pauseMs + Math.ceil(((tokens - this.#tokens) * MINUTE_MS) / this.#perMinute);
  }

  /** Resolves with a token, in the order of the calls; rejects with `signal.reason`. */
  async take(signal: AbortSignal): Promise<Token> {
    const before = this.#line;
    const { promise: left, settle: leave } = deferred<void>();
    this.#line = before.then(() => left);
    this.#waiting++;
    try {
      await unlessAborted(before, signal);
      if (this.waitMs === 0) return this.#drawAtOnce();
      for (let ms = this.waitMs; ms > 0; ms = this.waitMs) {
        this.#busySinceMs ??= Math.max(this.#clock.now(), this.#countedMs);
        await this.#clock.sleep(ms, signal);
      }
      return this.#draw();
    } finally {
      this.#waiting--;
      leave();
    }
  }

  /** Resolves with a spare token: only if no caller of `take` waits and the bucket is full. */
  async takePatiently(signal: AbortSignal): Promise<Token> {
    const before = this.#patientLine;
    const { promise: left, settle: leave } = deferred<void>();
    this.#patientLine = before.then(() => left);
    this.#patient++;
    try {
      await unlessAborted(before, signal);
      for (;;) {
        const ms = this.#waitForMs(this.#capacity());
        if (ms === 0 && this.#waiting === 0) return this.#draw();
        this.#busySinceMs ??= Math.max(this.#clock.now(), this.#countedMs);
        if (ms > 0) await this.#clock.sleep(ms, signal);
        else await unlessAborted(this.#line, signal);
      }
    } finally {
      this.#patient--;
      leave();
    }
  }

  takeNow(): Token | undefined {
    return this.#waiting > 0 || this.waitMs > 0 ? undefined : this.#drawAtOnce();
  }

  giveBack(): void {
    this.#tokens = Math.min(this.#capacity(), this.#tokens + 1);
  }

  /** Halves the rate and pauses: the relay asked for it. Without a token, a refusal during a pause is ignored. */
  refuse(token?: Token, pauseMs: number = this.#pauseMs()): void {
    const isEcho = token === undefined ? this.#isPaused : token < this.#refusals;
    if (isEcho) return;
    this.#refusals++;
    this.#perMinute = Number.isFinite(this.#perMinute)
      ? Math.max(LEAST_PER_MINUTE, this.#perMinute / 2)
      : Math.max(PUBLIC_EVENTS_PER_MINUTE, this.#drawnLastMinute() / 2);
    this.#busySinceMs = undefined;
    this.#tokens = 1; // allows one event at the end of the pause, as a test
    this.#countedMs = Math.max(this.#countedMs, this.#clock.now() + pauseMs);
  }

  get #isPaused(): boolean {
    return this.#countedMs > this.#clock.now();
  }

  #pauseMs(): number {
    return MINUTE_MS * (1 + this.#random() / 2);
  }

  /** Returns the maximum number of tokens that accumulate. */
  #capacity(): number {
    return Number.isFinite(this.#perMinute)
      ? Math.min(BURST, Math.max(1, this.#perMinute))
      : Number.POSITIVE_INFINITY;
  }

  #refill(): void {
    const nowMs = this.#clock.now();
    const passedMs = nowMs - this.#countedMs;
    if (passedMs <= 0) return;
    const gained = (passedMs * this.#perMinute) / MINUTE_MS;
    // waits are whole milliseconds; rounding must not cost another wait
    this.#tokens = Math.min(this.#capacity(), this.#tokens + gained + 1e-9);
    this.#countedMs = nowMs;
  }

  #drawAtOnce(): Token {
    // while anything is queued, the whole rate is in use
    if (this.#patient === 0) this.#busySinceMs = undefined;
    return this.#draw();
  }

  #draw(): Token {
    const nowMs = this.#clock.now();
    this.#tokens--;
    if (this.#busySinceMs !== undefined && nowMs - this.#busySinceMs >= MINUTE_MS) {
      this.#perMinute *= 1.5;
      this.#busySinceMs = nowMs;
    }
    this.#countDrawn(nowMs);
    return this.#refusals;
  }

  #countDrawn(nowMs: number): void {
    const { startMs, drawn } = this.#minute;
    const minutes = Math.floor((nowMs - startMs) / MINUTE_MS);
    if (minutes > 0) {
      this.#minute = {
        startMs: startMs + minutes * MINUTE_MS,
        drawn: 0,
        drawnBefore: minutes === 1 ? drawn : 0,
      };
    }
    this.#minute.drawn++;
  }

  #drawnLastMinute(): number {
    return Math.max(this.#minute.drawn, this.#minute.drawnBefore);
  }
}

/** Limits of what one relay may send per minute; beyond them, it is disconnected for a while. */
export interface RelayQuota {
  /** Each frame counts as at least 16 KiB: even a small event costs a signature check. */
  readonly bytesPerMinute: number;
  /** Malformed frames, and malformed or badly signed events. */
  readonly faultsPerMinute: number;
  readonly pauseMs: number;
}

/** What a relay may send before it is cut off for a while. */
export const defaultQuota: RelayQuota = {
  bytesPerMinute: 4 * 2 ** 30,
  faultsPerMinute: 100,
  pauseMs: 60_000,
};

const LEAST_FRAME_BYTES = 16 << 10;

/** Counts the cost of one relay; each method returns a reason if a limit is exceeded. */
export class RelayMeter {
  readonly #quota: RelayQuota;
  readonly #clock: Clock;
  #startMs: number;
  #bytes = 0;
  #faults = 0;

  constructor(quota: RelayQuota, clock: Clock) {
    this.#quota = quota;
    this.#clock = clock;
    this.#startMs = clock.now();
  }

  takeFrame(bytes: number): string | undefined {
    this.#roll();
    this.#bytes += Math.max(bytes, LEAST_FRAME_BYTES);
    if (this.#bytes <= this.#quota.bytesPerMinute) return undefined;
    return `sent more than ${this.#quota.bytesPerMinute} bytes in a minute`;
  }

  takeFault(): string | undefined {
    this.#roll();
    this.#faults++;
    if (this.#faults <= this.#quota.faultsPerMinute) return undefined;
    return `sent more than ${this.#quota.faultsPerMinute} bad messages or events in a minute`;
  }

  #roll(): void {
    const nowMs = this.#clock.now();
    if (nowMs >= this.#startMs && nowMs < this.#startMs + MINUTE_MS) return;
    this.#startMs = nowMs;
    this.#bytes = 0;
    this.#faults = 0;
  }
}

const AUTHOR_WINDOW_MS = 600_000;
/** Maximum authors counted; beyond, the least recently seen one is reset. */
const MAX_AUTHORS = 4096;

/** Counts the events of each author that one subscription received in recent minutes. */
export class AuthorQuota {
  readonly #max: number;
  readonly #clock: Clock;
  #startMs: number;
  #counts = new Recent<number>(MAX_AUTHORS);

  constructor(max: number, clock: Clock) {
    this.#max = max;
    this.#clock = clock;
    this.#startMs = clock.now();
  }

  get size(): number {
    return this.#counts.size;
  }

  allows(author: string): boolean {
    const nowMs = this.#clock.now();
    if (nowMs < this.#startMs || nowMs >= this.#startMs + AUTHOR_WINDOW_MS) {
      this.#startMs = nowMs;
      this.#counts = new Recent(MAX_AUTHORS);
    }
    return (this.#counts.get(author) ?? 0) < this.#max;
  }

  /** Counts a verified event. Forged events must not use up the quota of their supposed author. */
  count(author: string): void {
    this.#counts.set(author, (this.#counts.get(author) ?? 0) + 1);
  }
}
