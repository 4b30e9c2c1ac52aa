/** Rate limiters: exact sliding windows, and compact token buckets. */

/** A burst, then a rate per minute. */
export interface AddressRate {
  readonly atOnce: number;
  readonly perMinute: number;
}

export interface Rate {
  readonly count: number;
  readonly periodMs: number;
  /** Ranges of kinds it applies to, ends included; default all kinds. */
  readonly kinds?: readonly (readonly [number, number])[];
}

/** Maximum names remembered; beyond it, the least recently used is forgotten. */
const MAX_NAMES = 10_000;
const MINUTE_MS = 60_000;

const covers = ({ kinds }: Rate, kind: number | undefined): boolean =>
  !kinds || (kind !== undefined && kinds.some(([from, to]) => kind >= from && kind <= to));

/** Stores the value as the most recently used, and forgets the least recently used beyond the limit. */
function remember<T>(map: Map<string, T>, name: string, value: T): void {
  map.delete(name);
  map.set(name, value);
  for (const oldest of map.keys()) {
    if (map.size <= MAX_NAMES) return;
    map.delete(oldest);
  }
}

/** Exact sliding windows per name, for low rates: stores every time in the window. Refused attempts do not count. */
export class Meter {
  readonly #rates: readonly Rate[];
  readonly #times = new Map<string, number[]>();

  constructor(rates: readonly Rate[]) {
    this.#rates = rates;
  }

  /** Counts one more and returns true if it fits every applicable rate; otherwise counts nothing. */
  takes(name: string, nowMs: number, kind?: number): boolean {
    const windows: { key: string; recent: number[] }[] = [];
    for (const [i, rate] of this.#rates.entries()) {
      if (!covers(rate, kind)) continue;
      const key = `${i}:${name}`;
      const recent = (this.#times.get(key) ?? []).filter((time) => time > nowMs - rate.periodMs);
      if (recent.length >= rate.count) return false;
      windows.push({ key, recent });
    }
    for (const { key, recent } of windows) {
      recent.push(nowMs);
      remember(this.#times, key, recent);
    }
    return true;
  }
}

interface Bucket {
  tokens: number;
  atMs: number;
}

/** One token bucket per name; refused attempts take no token. */
export class Buckets {
  readonly #rate: AddressRate | undefined;
  readonly #buckets = new Map<string, Bucket>();

  /** Without a rate, everything is accepted. */
  constructor(rate: AddressRate | undefined) {
    this.#rate = rate;
  }

  takes(name: string, nowMs: number, tokens = 1): boolean {
    if (!this.#rate) return true;
    const { atOnce, perMinute } = this.#rate;
    const bucket = this.#buckets.get(name) ?? { tokens: atOnce, atMs: nowMs };
    const gained = ((nowMs - bucket.atMs) * perMinute) / MINUTE_MS;
    // waits are whole milliseconds; rounding must not refuse an honest sender
    const has = Math.min(atOnce, bucket.tokens + gained + 1e-9);
    if (has < Math.min(tokens, atOnce)) return false;
    remember(this.#buckets, name, { tokens: has - tokens, atMs: nowMs });
    return true;
  }
}
