/**
 * The last things seen, up to a number. Kept in two generations: when the younger is full, or old enough, the older is dropped whole, so at
 * least half of the number is remembered, and forgetting costs nothing (taking one by one off the front of a Map does).
 */
import type { Clock } from './clock.ts';

/** A generation is this old at most when something is seen: each thing is remembered for so long at least, as far as the number allows. */
export interface Ages {
  readonly clock: Pick<Clock, 'now'>;
  readonly ms: number;
}

export class Recent<V> {
  readonly #perGeneration: number;
  readonly #ages: Ages | undefined;
  #bornMs: number;
  #young = new Map<string, V>();
  #old = new Map<string, V>();

  constructor(max: number, ages?: Ages) {
    this.#perGeneration = Math.ceil(max / 2);
    this.#ages = ages;
    this.#bornMs = ages?.clock.now() ?? 0;
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  *entries(): Iterable<[string, V]> {
    yield* this.#old;
    yield* this.#young;
  }

  /** The value kept under this key, which becomes one of the most recent. */
  get(key: string): V | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: string, value: V): void {
    const isFull = !this.#young.has(key) && this.#young.size >= this.#perGeneration;
    if (isFull || this.#isAged()) this.age();
    this.#old.delete(key);
    this.#young.set(key, value);
  }

  delete(key: string): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }

  /** What was neither set nor asked for since the last time is forgotten. */
  age(): void {
    this.#old = this.#young;
    this.#young = new Map();
    this.#bornMs = this.#ages?.clock.now() ?? 0;
  }

  #isAged(): boolean {
    if (!this.#ages) return false;
    const ms = this.#ages.clock.now() - this.#bornMs;
    return ms < 0 || ms >= this.#ages.ms;
  }
}
