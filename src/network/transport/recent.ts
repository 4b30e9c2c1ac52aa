/**
 * The last things seen, up to a number. Kept in two generations: when the younger is full the older is dropped whole, so at
 * least half of the number is remembered, and forgetting costs nothing (taking one by one off the front of a Map does).
 */
export class Recent<V> {
  readonly #perGeneration: number;
  #young = new Map<string, V>();
  #old = new Map<string, V>();

  constructor(max: number) {
    this.#perGeneration = Math.ceil(max / 2);
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
    if (!this.#young.has(key) && this.#young.size >= this.#perGeneration) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#old.delete(key);
    this.#young.set(key, value);
  }
}
