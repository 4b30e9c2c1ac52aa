/** Events in memory, bounded by count and bytes; the oldest arrivals leave first. Queries scan: meant for demos and tests. */
import { byRecency, type Entry, expirationOf, slotOf } from './event.ts';
import type { CompiledFilter } from './filter.ts';
import type { Limits } from './limits.ts';

/** What became of an event: kept, or an equally good or newer version was there already. */
export type Kept = 'stored' | 'duplicate' | 'replaced';

export class Store {
  readonly #limits: Limits;
  /** By id, in order of arrival. */
  readonly #entries = new Map<string, Entry>();
  /** The id that now holds each replaceable or addressable slot. */
  readonly #slots = new Map<string, string>();
  #bytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /** Keeps the event unless it is known or its slot already holds a newer one. */
  add(entry: Entry): Kept {
    if (this.#entries.has(entry.id)) return 'duplicate';
    const slot = slotOf(entry);
    if (slot !== undefined) {
      const held = this.#entries.get(this.#slots.get(slot) ?? '');
      if (held && byRecency(held, entry) < 0) return 'replaced';
      if (held) this.#remove(held);
      this.#slots.set(slot, entry.id);
    }
    this.#entries.set(entry.id, entry);
    this.#bytes += entry.json.length;
    this.#evict();
    return 'stored';
  }

  /** What the filters ask for, each event once, newest first; of one second, the lowest id first. */
  query(filters: readonly CompiledFilter[], nowSeconds: number): Entry[] {
    const found = new Map<string, Entry>();
    for (const filter of filters) {
      const hits: Entry[] = [];
      for (const entry of this.#candidates(filter)) {
        if (!filter.matches(entry)) continue;
        if ((expirationOf(entry) ?? Number.POSITIVE_INFINITY) <= nowSeconds) continue;
        hits.push(entry);
      }
      hits.sort(byRecency);
      for (const entry of hits.slice(0, filter.limit)) found.set(entry.id, entry);
    }
    return [...found.values()].sort(byRecency);
  }

  *#candidates(filter: CompiledFilter): Iterable<Entry> {
    if (filter.limit === 0) return;
    if (!filter.ids) {
      yield* this.#entries.values();
      return;
    }
    for (const id of filter.ids) {
      const entry = this.#entries.get(id);
      if (entry) yield entry;
    }
  }

  #remove(entry: Entry): void {
    this.#entries.delete(entry.id);
    this.#bytes -= entry.json.length;
    const slot = slotOf(entry);
    if (slot !== undefined && this.#slots.get(slot) === entry.id) this.#slots.delete(slot);
  }

  #evict(): void {
    for (const entry of this.#entries.values()) {
      const full =
        this.#entries.size > this.#limits.maxStoredEvents ||
        this.#bytes > this.#limits.maxStoredBytes;
      if (!full) return;
      this.#remove(entry);
    }
  }
}
