/**
 * Things of many owners in bounded memory: each owner may hold so many bytes, all together so many. Who exceeds the first loses their own
 * oldest; when the second is exceeded, whoever holds most does. So a flood pushes out nobody else's.
 */

export interface Stored<V> {
  readonly value: V;
  readonly owner: string;
  readonly bytes: number;
}

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

  /** Keeps it where there is room for it at all, in place of what had the name. */
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
