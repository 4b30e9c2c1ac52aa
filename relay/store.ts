/** Events in memory, indexed, bounded by count and bytes: when full, what is over leaves, then the oldest regular events. */
import {
  byRecency,
  DELETION_KIND,
  type Entry,
  expirationOf,
  isEphemeral,
  slotOf,
  VANISH_KIND,
  valuesOf,
} from './event.ts';
import { EventIndex } from './event-index.ts';
import type { CompiledFilter } from './filter.ts';
import { authorKey, tagKey } from './index-keys.ts';
import type { Limits } from './limits.ts';
import { Tombstones } from './tombstones.ts';

/** What became of an event: kept, known, outdated by a newer version, deleted by its author before, or too large. */
export type Kept = 'stored' | 'duplicate' | 'replaced' | 'deleted' | 'too-large';

/** Of a full store so much is freed at once, so that looking for what may leave is rare. */
const SPARE = 1 / 20;

/** What a query found, and whether that is all there is: unknown when a filter wanted nothing stored. */
export interface Found {
  readonly entries: readonly Entry[];
  readonly hint: 'finish' | 'more' | undefined;
}

export class Store {
  readonly #limits: Limits;
  readonly #index = new EventIndex();
  readonly #tombstones = new Tombstones();
  /** The id that now holds each replaceable or addressable slot. */
  readonly #slots = new Map<string, string>();
  #bytes = 0;
  #buried = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#index.size;
  }

  /** The JSON of all events kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Events taken away by deletions and requests to vanish. */
  get buried(): number {
    return this.#buried;
  }

  /** In order of arrival. */
  entries(): Iterable<Entry> {
    return this.#index.values();
  }

  find(id: string): Entry | undefined {
    return this.#index.get(id);
  }

  has(id: string): boolean {
    return this.find(id) !== undefined;
  }

  /** Keeps the event unless it is known, deleted, its slot already holds a newer one, or it alone is more than the store takes. */
  add(entry: Entry, nowSeconds: number): Kept {
    if (this.has(entry.id)) return 'duplicate';
    if (this.#tombstones.covers(entry)) return 'deleted';
    if (entry.json.length > this.#limits.maxStoredBytes) return 'too-large';
    const slot = slotOf(entry);
    if (slot !== undefined) {
      const held = this.#index.get(this.#slots.get(slot) ?? '');
      if (held && byRecency(held, entry) < 0) return 'replaced';
      if (held) this.remove(held);
      this.#slots.set(slot, entry.id);
    }
    this.#index.add(entry);
    this.#bytes += entry.json.length;
    this.#bury(entry);
    this.#makeRoom(entry, nowSeconds);
    return 'stored';
  }

  /** What the filters ask for, each event once, newest first; of one second, the lowest id first. */
  query(filters: readonly CompiledFilter[], nowSeconds: number): Found {
    const found = new Map<string, Entry>();
    let more = false;
    for (const filter of filters) {
      if (filter.limit === 0) continue;
      const hits = this.#hits(filter, nowSeconds).sort(byRecency);
      if (hits.length > filter.limit) more = true;
      for (const entry of hits.slice(0, filter.limit)) found.set(entry.id, entry);
    }
    const all = !filters.some((filter) => filter.limit === 0);
    const hint = more ? 'more' : all ? 'finish' : undefined;
    return { entries: [...found.values()].sort(byRecency), hint };
  }

  /** How many events match any of the filters; their limits do not count. */
  count(filters: readonly CompiledFilter[], nowSeconds: number): number {
    return new Set(filters.flatMap((filter) => this.#hits(filter, nowSeconds))).size;
  }

  remove(entry: Entry): void {
    this.#index.remove(entry);
    this.#bytes -= entry.json.length;
    const slot = slotOf(entry);
    if (slot !== undefined && this.#slots.get(slot) === entry.id) this.#slots.delete(slot);
  }

  /** Takes away all events that are over. */
  removeOver(nowSeconds: number): void {
    for (const entry of [...this.#index.values()]) {
      if (this.#isOver(entry, nowSeconds)) this.remove(entry);
    }
  }

  /** Whether the event is over, by its own word or as an ephemeral one. */
  #isOver(entry: Entry, nowSeconds: number): boolean {
    if ((expirationOf(entry) ?? Number.POSITIVE_INFINITY) <= nowSeconds) return true;
    return (
      isEphemeral(entry.kind) && entry.created_at + this.#limits.ephemeralKeepSeconds <= nowSeconds
    );
  }

  /** Matches that are not over; those that are leave the store. */
  #hits(filter: CompiledFilter, nowSeconds: number): Entry[] {
    const hits: Entry[] = [];
    const over: Entry[] = [];
    for (const entry of this.#index.candidates(filter)) {
      if (filter.matches(entry)) (this.#isOver(entry, nowSeconds) ? over : hits).push(entry);
    }
    for (const entry of over) this.remove(entry);
    return hits;
  }

  /** Takes away what a deletion or a request to vanish names. */
  #bury(entry: Entry): void {
    if (entry.kind !== DELETION_KIND && entry.kind !== VANISH_KIND) return;
    this.#tombstones.mark(entry);
    for (const target of this.#targets(entry)) {
      if (target.id === entry.id || !this.#tombstones.covers(target)) continue;
      if (!this.has(target.id)) continue;
      this.remove(target);
      this.#buried++;
    }
  }

  #targets({ kind, pubkey, tags }: Entry): readonly Entry[] {
    if (kind === VANISH_KIND) {
      return [...this.#index.under(authorKey(pubkey)), ...this.#index.under(tagKey('p', pubkey))];
    }
    const ids = valuesOf(tags, 'e');
    const named = ids.map((id) => this.#index.get(id)).filter((target) => target !== undefined);
    if (!tags.some((tag) => tag[0] === 'a')) return named;
    return [...named, ...this.#index.under(authorKey(pubkey))];
  }

  /** Once the store is full: away with what is over, then with the oldest regular arrivals, then with the oldest of all. */
  #makeRoom(newest: Entry, nowSeconds: number): void {
    if (!this.#isAbove(0)) return;
    const leaving: readonly ((entry: Entry) => boolean)[] = [
      (entry) => this.#isOver(entry, nowSeconds),
      (entry) => slotOf(entry) === undefined,
      () => true,
    ];
    for (const leaves of leaving) {
      for (const entry of this.#index.values()) {
        if (!this.#isAbove(SPARE)) return;
        if (entry !== newest && leaves(entry)) this.remove(entry);
      }
    }
  }

  #isAbove(spare: number): boolean {
    const { maxStoredEvents, maxStoredBytes } = this.#limits;
    return (
      this.#index.size > maxStoredEvents - Math.floor(maxStoredEvents * spare) ||
      this.#bytes > maxStoredBytes - Math.floor(maxStoredBytes * spare)
    );
  }
}
