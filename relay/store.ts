/**
 * The event store in memory, indexed and bounded by count, bytes and index size. Each class of events (small regular,
 * large regular, addressable, ephemeral) has a guaranteed quarter, and each author a guaranteed share of its class;
 * unused capacity is available to all.
 */
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
import { EventIndex, indexBytesOf } from './event-index.ts';
import { FairShares } from './fair-shares.ts';
import { authorKey, type CompiledFilter, tagKey } from './filter.ts';
import type { Limits } from './limits.ts';
import { slotName, Tombstones } from './tombstones.ts';
import { finish, type Work } from './turns.ts';

/** Result of adding an event; `full` means that its author has too many. */
export type StoreOutcome = 'stored' | 'duplicate' | 'replaced' | 'deleted' | 'too-large' | 'full';

/** Result of a query, and whether it is complete; unknown if a filter requested no stored events. */
export interface StoredMatches {
  readonly entries: readonly Entry[];
  readonly hint: 'finish' | 'more' | undefined;
}

/** Weight of the whole store, as an integer so that sums of shares are exact. */
const WHOLE = 2 ** 40;
/** Regular events above this size form a class of their own, apart from votes and similar small ones. */
const SMALL_BYTES = 8192;
/** Units of work between two yields of a scan. */
const STEP_UNITS = 1000;

type Class = 'small' | 'large' | 'addressable' | 'ephemeral';

function classOf(entry: Entry): Class {
  if (isEphemeral(entry.kind)) return 'ephemeral';
  if (slotOf(entry) !== undefined) return 'addressable';
  return entry.json.length > SMALL_BYTES ? 'large' : 'small';
}

/** Stored events in memory. */
export class Store {
  readonly #limits: Limits;
  readonly #index = new EventIndex();
  readonly #tombstones = new Tombstones();
  /** Current event id of each replaceable or addressable slot. */
  readonly #slots = new Map<string, string>();
  readonly #classes: Readonly<Record<Class, FairShares<Entry>>> = {
    small: new FairShares(WHOLE / 4),
    large: new FairShares(WHOLE / 4),
    addressable: new FairShares(WHOLE / 4),
    ephemeral: new FairShares(WHOLE / 4),
  };
  /** End time of events that expire. */
  readonly #ends = new Map<Entry, number>();
  #sweptSeconds = -1;
  #bytes = 0;
  #buried = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#index.size;
  }

  /** Bytes of JSON of all stored events. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Number of events deleted by deletions and requests to vanish. */
  get buried(): number {
    return this.#buried;
  }

  /** Events in order of arrival. */
  entries(): Iterable<Entry> {
    return this.#index.values();
  }

  find(id: string): Entry | undefined {
    return this.#index.get(id);
  }

  has(id: string): boolean {
    return this.find(id) !== undefined;
  }

  add(entry: Entry, nowSeconds: number): StoreOutcome {
    return finish(this.adding(entry, nowSeconds));
  }

  /** Stores the event unless it is known or deleted, its slot has a newer one, or the store is full. */
  *adding(entry: Entry, nowSeconds: number): Work<StoreOutcome> {
    if (this.has(entry.id)) return 'duplicate';
    if (this.#tombstones.covers(entry)) return 'deleted';
    const weight = this.#weigh(entry);
    if (weight > WHOLE) return 'too-large';
    const slot = slotOf(entry);
    if (slot !== undefined) {
      const current = this.#index.get(this.#slots.get(slot) ?? '');
      if (current && byRecency(current, entry) < 0) return 'replaced';
      if (current) this.remove(current);
      this.#slots.set(slot, entry.id);
    }
    this.#index.add(entry);
    this.#classes[classOf(entry)].add(entry.pubkey, entry, weight);
    this.#bytes += entry.json.length;
    const end = this.#endOf(entry);
    if (end !== undefined) this.#ends.set(entry, end);
    yield this.#evict(nowSeconds);
    yield* this.#bury(entry);
    return this.has(entry.id) ? 'stored' : 'full';
  }

  query(filters: readonly CompiledFilter[], nowSeconds: number): StoredMatches {
    return finish(this.querying(filters, nowSeconds));
  }

  /** Returns the matching events, each once, newest first; within a second, lowest id first. */
  *querying(filters: readonly CompiledFilter[], nowSeconds: number): Work<StoredMatches> {
    let entries: Entry[] = [];
    let more = false;
    for (const filter of filters) {
      if (filter.limit === 0) continue;
      const newest = new Newest(filter.limit);
      yield* this.#scan(filter, nowSeconds, (entry) => newest.add(entry));
      const hits = newest.take();
      more ||= newest.hasMore;
      const all = new Newest(this.#limits.maxLimit);
      for (const entry of new Set([...entries, ...hits])) all.add(entry);
      entries = all.take();
      more ||= all.hasMore;
      yield entries.length;
    }
    const all = !filters.some((filter) => filter.limit === 0);
    const hint = more ? 'more' : all ? 'finish' : undefined;
    return { entries: entries, hint };
  }

  /** Returns how many events the filters may match, from index sizes alone. */
  candidates(filters: readonly CompiledFilter[]): number {
    return filters.reduce((sum, filter) => sum + this.#index.countOf(filter), 0);
  }

  /** Returns all matches of one filter, ignoring its limit, in no particular order. */
  *matching(filter: CompiledFilter, nowSeconds: number): Work<readonly Entry[]> {
    const entries: Entry[] = [];
    yield* this.#scan(filter, nowSeconds, (entry) => entries.push(entry));
    return entries;
  }

  count(filters: readonly CompiledFilter[], nowSeconds: number): number {
    return finish(this.counting(filters, nowSeconds));
  }

  /** Returns how many events match any of the filters, ignoring their limits. */
  *counting(filters: readonly CompiledFilter[], nowSeconds: number): Work<number> {
    const entries = new Set<Entry>();
    for (const filter of filters) {
      yield* this.#scan(filter, nowSeconds, (entry) => entries.add(entry));
    }
    return entries.size;
  }

  remove(entry: Entry): void {
    this.#index.remove(entry);
    this.#classes[classOf(entry)].remove(entry.pubkey, entry);
    this.#ends.delete(entry);
    this.#bytes -= entry.json.length;
    const slot = slotOf(entry);
    if (slot !== undefined && this.#slots.get(slot) === entry.id) this.#slots.delete(slot);
  }

  /** Removes all expired events. */
  removeOver(nowSeconds: number): void {
    this.#sweptSeconds = nowSeconds;
    for (const [entry, end] of this.#ends) if (end <= nowSeconds) this.remove(entry);
  }

  /** Returns when the event ends: its expiration, or earlier for ephemeral events. */
  #endOf(entry: Entry): number | undefined {
    const expiration = expirationOf(entry);
    if (!isEphemeral(entry.kind)) return expiration;
    const end = entry.created_at + this.#limits.ephemeralKeepSeconds;
    return Math.min(end, expiration ?? end);
  }

  /** Returns the share of the store that an event takes: the largest of its shares of count, bytes and index. */
  #weigh(entry: Entry): number {
    const { maxStoredEvents, maxStoredBytes, maxIndexBytes } = this.#limits;
    const share = Math.max(
      1 / maxStoredEvents,
      entry.json.length / maxStoredBytes,
      indexBytesOf(entry) / maxIndexBytes,
    );
    return Math.floor(share * WHOLE);
  }

  /** Calls `take` with each current match of the filter; removes expired events on the way. */
  *#scan(filter: CompiledFilter, nowSeconds: number, take: (entry: Entry) => void): Work<void> {
    const candidates = this.#index.candidates(filter);
    const seen = new Set<Entry>();
    let units = Math.ceil((candidates.length + filter.size) / 32);
    for (const entry of candidates) {
      units += 1 + ((entry.tags.length * filter.tagTests) >> 6);
      if (units > STEP_UNITS) {
        yield units;
        units = 0;
      }
      if (!filter.matches(entry) || seen.has(entry) || this.find(entry.id) !== entry) continue;
      seen.add(entry);
      if ((this.#ends.get(entry) ?? Number.POSITIVE_INFINITY) <= nowSeconds) this.remove(entry);
      else take(entry);
    }
    yield units;
  }

  /** Removes the events that a deletion or a request to vanish names. */
  *#bury(entry: Entry): Work<void> {
    if (entry.kind !== DELETION_KIND && entry.kind !== VANISH_KIND) return;
    yield* this.#tombstones.mark(entry);
    let units = 0;
    for (const target of this.#targets(entry)) {
      units += 4;
      if (units > STEP_UNITS) {
        yield units;
        units = 0;
      }
      if (target.id === entry.id || !this.#tombstones.covers(target)) continue;
      if (this.find(target.id) !== target) continue;
      this.remove(target);
      this.#buried++;
    }
    yield units;
  }

  #targets({ kind, pubkey, tags }: Entry): readonly Entry[] {
    if (kind === VANISH_KIND) {
      return [...this.#index.under(authorKey(pubkey)), ...this.#index.under(tagKey('p', pubkey))];
    }
    const slots = valuesOf(tags, 'a').map((address) => this.#slots.get(slotName(address)) ?? '');
    return [...valuesOf(tags, 'e'), ...slots].flatMap((id) => this.#index.get(id) ?? []);
  }

  /** Evicts from a full store: expired events first, then the oldest of the fullest class. Returns the units spent. */
  #evict(nowSeconds: number): number {
    if (this.#weight > WHOLE && this.#sweptSeconds !== nowSeconds) this.removeOver(nowSeconds);
    let units = 0;
    while (this.#weight > WHOLE) {
      const fullest = Object.values(this.#classes).reduce((a, b) => (b.weight > a.weight ? b : a));
      const first = fullest.first();
      if (!first) break;
      this.remove(first[1]);
      units += 4 + first[1].tags.length;
    }
    return units;
  }

  get #weight(): number {
    const { small, large, addressable, ephemeral } = this.#classes;
    return small.weight + large.weight + addressable.weight + ephemeral.weight;
  }
}

/** Keeps the newest of the added events, up to a maximum. */
class Newest {
  readonly #most: number;
  #entries: Entry[] = [];
  #hasMore = false;

  constructor(most: number) {
    this.#most = most;
  }

  /** Whether some were dropped. */
  get hasMore(): boolean {
    return this.#hasMore;
  }

  add(entry: Entry): void {
    this.#entries.push(entry);
    if (this.#entries.length > 2 * this.#most + STEP_UNITS) this.#cut();
  }

  /** Returns the events, newest first. */
  take(): Entry[] {
    this.#cut();
    return this.#entries;
  }

  #cut(): void {
    this.#entries.sort(byRecency);
    if (this.#entries.length <= this.#most) return;
    this.#hasMore = true;
    this.#entries.length = this.#most;
  }
}
