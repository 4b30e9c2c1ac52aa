/**
 * Which chunks of one payload to ask which relay for next. It hears what was asked, what came and what did not, and
 * spreads the rest over the relays; it talks to nobody.
 */

import { chunkCount, type partsOf } from '../chunks/payload.ts';

/** A chunk of a part. */
export interface Place {
  readonly part: number;
  readonly index: number;
}

export interface Request {
  readonly places: readonly Place[];
  /** How often this relay said that it has not got one of them. */
  readonly tries: number;
}

/** Values in one list of a filter that every relay takes. */
const MOST_PER_REQUEST = 64;
const LEAST_PER_REQUEST = 8;
/** A chunk asked of one relay is asked of another one, too, when it has not come after this. */
const HEDGE_MS = 2000;
/** More parts than are needed are pulled when those needed take longer than this. */
const PATIENCE_MS = 3000;
/** A relay that has not got a chunk is asked again after this, doubling. */
const RETRY_MS = 500;
const LONGEST_RETRY_MS = 8000;

interface Spot extends Place {
  held: boolean;
  /** Relays that were asked and have not answered. */
  readonly asked: Set<string>;
  lastAskedMs: number;
  /** Relays that have not got it. */
  readonly absent: Map<string, { readonly times: number; readonly untilMs: number }>;
}

export class PullPlan {
  readonly #need: number;
  readonly #parts: readonly (readonly Spot[])[];
  readonly #startedMs: number;

  constructor({ need, roots }: ReturnType<typeof partsOf>, nowMs: number) {
    this.#need = need;
    this.#startedMs = nowMs;
    this.#parts = roots.map(({ bytes }, part) =>
      Array.from({ length: chunkCount(bytes) }, (_, index) => ({
        part,
        index,
        held: false,
        lastAskedMs: 0,
        asked: new Set<string>(),
        absent: new Map(),
      })),
    );
  }

  /** What to ask this relay now, empty when there is nothing; `relays` are those that can be asked at once, before one that comes last. */
  take(relay: string, relays: readonly string[], nowMs: number, isLast = false): Request {
    const open: Spot[] = [];
    const slow: Spot[] = [];
    for (const part of this.#wanted(relays, nowMs)) {
      for (const spot of part) {
        if (spot.held || spot.asked.has(relay)) continue;
        if ((spot.absent.get(relay)?.untilMs ?? 0) > nowMs) continue;
        if (isLast && !relays.every((each) => spot.absent.has(each))) continue;
        if (spot.asked.size === 0) open.push(spot);
        else if (nowMs - spot.lastAskedMs >= HEDGE_MS) slow.push(spot);
      }
    }
    const share = Math.ceil(open.length / Math.max(1, relays.length));
    const most = Math.min(MOST_PER_REQUEST, Math.max(LEAST_PER_REQUEST, share));
    const taken = (open.length > 0 ? open : slow).slice(0, most);
    for (const spot of taken) {
      spot.asked.add(relay);
      spot.lastAskedMs = nowMs;
    }
    const tries = taken.map(({ absent }) => absent.get(relay)?.times ?? 0);
    return { places: taken, tries: Math.max(0, ...tries) };
  }

  /** A chunk is here. */
  hold({ part, index }: Place): void {
    const spot = this.#parts[part]?.[index];
    if (spot) spot.held = true;
  }

  /** The relay has answered, or will not: what of it is not here, it has not got for now. */
  answered(relay: string, places: readonly Place[], nowMs: number): void {
    for (const { part, index } of places) {
      const spot = this.#parts[part]![index]!;
      spot.asked.delete(relay);
      if (spot.held) continue;
      const times = (spot.absent.get(relay)?.times ?? 0) + 1;
      const waitMs = Math.min(LONGEST_RETRY_MS, RETRY_MS * 2 ** (times - 1));
      spot.absent.set(relay, { times, untilMs: nowMs + waitMs });
    }
  }

  /** Indices of the parts that are whole. */
  get whole(): readonly number[] {
    return [...this.#parts.keys()].filter((part) => this.#isWhole(this.#parts[part]!));
  }

  get complete(): boolean {
    return this.whole.length >= this.#need;
  }

  /** Chunks here, of those that are needed at the least. */
  get progress(): { readonly have: number; readonly of: number } {
    const counts = this.#parts.map((part) => part.filter(({ held }) => held).length);
    const most = counts.sort((a, b) => b - a).slice(0, this.#need);
    const each = this.#parts[0]?.length ?? 0;
    return { have: most.reduce((sum, count) => sum + count, 0), of: each * this.#need };
  }

  #isWhole(part: readonly Spot[]): boolean {
    return part.every(({ held }) => held);
  }

  /** As many parts as are needed, first those that some relay may have; all of them when that takes too long. */
  #wanted(relays: readonly string[], nowMs: number): readonly (readonly Spot[])[] {
    if (nowMs - this.#startedMs > PATIENCE_MS) return this.#parts;
    const isStuck = (part: readonly Spot[]) =>
      part.some(({ held, absent }) => !held && relays.every((relay) => absent.has(relay)));
    const stuck = this.#parts.filter(isStuck);
    const likely = this.#parts.filter((part) => !stuck.includes(part));
    return [...likely.slice(0, this.#need), ...stuck];
  }
}
