/** Maps in bounded memory: the most recent entries, and entries of many owners with a limit for each. */
import type { Clock } from './async.ts';

/** Maximum age of a generation: each entry is kept at least this long, as far as the number of entries allows. */
export interface Ages {
  readonly clock: Pick<Clock, 'now'>;
  readonly ms: number;
}

/**
 * The last things seen, up to a number. When the younger of two generations is full or old enough, the older is
 * dropped: at least half of the number is remembered, and forgetting costs nothing.
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

export interface Stored<V> {
  readonly value: V;
  readonly owner: string;
  readonly bytes: number;
}

/**
 * Entries of many owners in bounded memory. An owner over its limit loses its own oldest entries; when all together are
 * over theirs, the owner that holds most does. So a flood pushes out nobody else's.
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

  /** What all of it costs, as it was declared. */
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
    const own = this.#owners.get(owner) ?? { names: new Set<string>(), bytes: 0 };
    while (own.bytes + bytes > this.#perOwner) this.#dropOldest(owner);
    this.#stored.set(name, stored);
    own.names.add(name);
    own.bytes += bytes;
    this.#owners.set(owner, own);
    this.#bytes += bytes;
    while (this.#bytes > this.#inAll) this.#dropOldest(this.#largest());
    return this.#stored.has(name);
  }

  delete(name: string): void {
    const stored = this.#stored.get(name);
    if (!stored) return;
    const own = this.#owners.get(stored.owner)!;
    this.#stored.delete(name);
    own.names.delete(name);
    own.bytes -= stored.bytes;
    this.#bytes -= stored.bytes;
    if (own.names.size === 0) this.#owners.delete(stored.owner);
  }

  #dropOldest(owner: string): void {
    for (const name of this.#owners.get(owner)?.names ?? []) {
      this.delete(name);
      return;
    }
  }

  #largest(): string {
    let largest = '';
    let most = -1;
    for (const [owner, { bytes }] of this.#owners) {
      if (bytes <= most) continue;
      most = bytes;
      largest = owner;
    }
    return largest;
  }
}
