/** So many per period: sliding windows that are exact, and buckets of tokens that are small. */

/** So many at once, then so many a minute. */
export interface AddressRate {
  readonly atOnce: number;
  readonly perMinute: number;
}

export interface Rate {
  readonly count: number;
  readonly periodMs: number;
  /** Ranges of kinds it counts, ends included; all kinds when left out. */
  readonly kinds?: readonly (readonly [number, number])[];
}

/** Names remembered at most; beyond it the one longest unused is forgotten. */
const MAX_NAMES = 10_000;
const MINUTE_MS = 60_000;

const covers = ({ kinds }: Rate, kind: number | undefined): boolean =>
  !kinds || (kind !== undefined && kinds.some(([from, to]) => kind >= from && kind <= to));

/** Remembers the value as the latest used, and forgets those longest unused. */
function remember<T>(map: Map<string, T>, name: string, value: T): void {
  map.delete(name);
  map.set(name, value);
  for (const oldest of map.keys()) {
    if (map.size <= MAX_NAMES) return;
    map.delete(oldest);
  }
}

/** Exact sliding windows per name, for low rates: every time in the window is stored. Refused attempts do not count. */
export class Meter {
  readonly #rates: readonly Rate[];
  readonly #times = new Map<string, number[]>();

  constructor(rates: readonly Rate[]) {
    this.#rates = rates;
  }

  /** Whether one more fits every rate that covers it; if so it is counted in each of them. */
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

/** A bucket of tokens under each name; refused attempts take none. */
export class Buckets {
  readonly #rate: AddressRate | undefined;
  readonly #buckets = new Map<string, Bucket>();

  /** Without a rate everything is taken. */
  constructor(rate: AddressRate | undefined) {
    this.#rate = rate;
  }

  takes(name: string, nowMs: number, tokens = 1): boolean {
    if (!this.#rate) return true;
    const { atOnce, perMinute } = this.#rate;
    const bucket = this.#buckets.get(name) ?? { tokens: atOnce, atMs: nowMs };
    const gained = ((nowMs - bucket.atMs) * perMinute) / MINUTE_MS;
    // waits are whole milliseconds: what rounding leaves missing must not refuse anybody
    const has = Math.min(atOnce, bucket.tokens + gained + 1e-9);
    if (has < Math.min(tokens, atOnce)) return false;
    remember(this.#buckets, name, { tokens: has - tokens, atMs: nowMs });
    return true;
  }
}
