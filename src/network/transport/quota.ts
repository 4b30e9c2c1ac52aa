/** Limits over time, counted before anything is hashed: what one relay may cost, and how much one author may say. */
import type { Clock } from '../../base/async.ts';
import { Recent } from '../../base/bounded.ts';

/** What one relay may send in a minute of our clock; beyond, its connection ends for a while. */
export interface RelayQuota {
  /** A frame counts as 16 KiB at least: an event costs a signature check however small it is. */
  readonly bytesPerMinute: number;
  /** Frames that are no messages, and events that are badly made or badly signed. */
  readonly faultsPerMinute: number;
  /** How long the relay is then left alone. */
  readonly pauseMs: number;
}

export const defaultQuota: RelayQuota = {
  bytesPerMinute: 4 * 2 ** 30,
  faultsPerMinute: 100,
  pauseMs: 60_000,
};

const MINUTE_MS = 60_000;
const LEAST_FRAME_BYTES = 16 << 10;

/** Counts what one relay costs; each method says why the relay has gone too far, or nothing. */
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
/** Authors counted at once; the one heard least recently starts anew. */
const MAX_AUTHORS = 4096;

/** How many events of each author one subscription was handed in the last minutes. */
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

  /** Whether one more event of this author is taken. */
  allows(author: string): boolean {
    const nowMs = this.#clock.now();
    if (nowMs < this.#startMs || nowMs >= this.#startMs + AUTHOR_WINDOW_MS) {
      this.#startMs = nowMs;
      this.#counts = new Recent(MAX_AUTHORS);
    }
    return (this.#counts.get(author) ?? 0) < this.#max;
  }

  /** Counts a verified event: a forged one must not use up what its supposed author may say. */
  count(author: string): void {
    this.#counts.set(author, (this.#counts.get(author) ?? 0) + 1);
  }
}
