/** So many per period: sliding windows over what happened, one per name and rate. */

/** The other way to limit: so many at once, then so many a minute. */
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

/** Windows remembered at most; beyond it the one longest unused is forgotten. */
const MAX_WINDOWS = 10_000;

const covers = ({ kinds }: Rate, kind: number | undefined): boolean =>
  !kinds || (kind !== undefined && kinds.some(([from, to]) => kind >= from && kind <= to));

/** Counts what happens under each name; refused attempts do not count. */
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
      this.#times.delete(key);
      this.#times.set(key, recent);
    }
    this.#forget();
    return true;
  }

  #forget(): void {
    for (const key of this.#times.keys()) {
      if (this.#times.size <= MAX_WINDOWS) return;
      this.#times.delete(key);
    }
  }
}
