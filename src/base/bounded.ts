/** Maps in bounded memory: one keeps the most recent entries, one limits the bytes of each owner. */
import type { Clock } from './async.ts';

/** Minimum age of a kept entry, unless the entry limit drops it earlier. */
export interface Ages {
  readonly clock: Pick<Clock, 'now'>;
  readonly ms: number;
}

/**
 * A map of the most recent entries, at most `max`. It keeps two generations: when the younger is full or old enough,
 * the older is dropped. So at least half of `max` entries are kept, and dropping takes constant time.
 */
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

  /** Returns the value under a key and makes it one of the most recent. */
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

  /** Drops entries that were neither set nor read since the last call. */
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

export interface Stored<V> {
  readonly value: V;
  readonly owner: string;
  readonly bytes: number;
}

/**
 * Entries of many owners in bounded memory. An owner over its limit loses its own oldest entries; if the total is over
 * its limit, the owner with the most bytes loses its oldest. So a flood by one owner never evicts entries of others.
 */
export class FairStore<V> {
  readonly #perOwner: number;
  readonly #inAll: number;
  readonly #stored = new Map<string, Stored<V>>();
  readonly #owners = new Map<string, { readonly names: Set<string>; bytes: number }>();
  #bytes = 0;

  constructor(limits: { readonly perOwner: number; readonly inAll: number }) {
    this.#perOwner = limits.perOwner;
    this.#inAll = limits.inAll;
  }

  get size(): number {
    return this.#stored.size;
  }

  /** Bytes of all entries, as declared by `set`. */
  get bytes(): number {
    return this.#bytes;
  }

  get(name: string): V | undefined {
    return this.#stored.get(name)?.value;
  }

  has(name: string): boolean {
    return this.#stored.has(name);
  }

  entries(): IterableIterator<[string, Stored<V>]> {
    return this.#stored.entries();
  }

  /** Stores the value if it fits at all, replacing the one of the same name. */
  set(name: string, stored: Stored<V>): boolean {
    const { owner, bytes } = stored;
    if (bytes > Math.min(this.#perOwner, this.#inAll)) return false;
    this.delete(name);
    const entry = this.#owners.get(owner) ?? { names: new Set<string>(), bytes: 0 };
    while (entry.bytes + bytes > this.#perOwner) this.#dropOldest(owner);
    this.#stored.set(name, stored);
    entry.names.add(name);
    entry.bytes += bytes;
    this.#owners.set(owner, entry);
    this.#bytes += bytes;
    while (this.#bytes > this.#inAll) this.#dropOldest(this.#largest());
    return this.#stored.has(name);
  }

  delete(name: string): void {
    const stored = this.#stored.get(name);
    if (!stored) return;
    const entry = this.#owners.get(stored.owner)!;
    this.#stored.delete(name);
    entry.names.delete(name);
    entry.bytes -= stored.bytes;
    this.#bytes -= stored.bytes;
    if (entry.names.size === 0) this.#owners.delete(stored.owner);
  }

  #dropOldest(owner: string): void {
    for (const name of this.#owners.get(owner)?.names ?? []) {
      this.delete(name);
      return;
    }
  }

  #largest(): string {
    let largest = '';
    let mostBytes = -1;
    for (const [owner, { bytes }] of this.#owners) {
      if (bytes <= mostBytes) continue;
      mostBytes = bytes;
      largest = owner;
    }
    return largest;
  }
}
