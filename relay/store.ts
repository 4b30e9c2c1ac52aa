/**
 * Events in memory, indexed, bounded by count, bytes and index. Each class of events (small regular, large regular,
 * addressable, ephemeral) is sure of a quarter, and within it each author of a share; what nobody uses others may.
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

/** What the store did with an event; `full` means that its author has too many. */
export type StoreOutcome = 'stored' | 'duplicate' | 'replaced' | 'deleted' | 'too-large' | 'full';

/** What a query found, and whether that is all there is: unknown when a filter wanted nothing stored. */
export interface StoredMatches {
  readonly entries: readonly Entry[];
  readonly hint: 'finish' | 'more' | undefined;
}

/** The whole store, in whole units, so that sums of shares are exact. */
const WHOLE = 2 ** 40;
/** A regular event above this is of another class than votes and the like. */
const SMALL_BYTES = 8192;
/** Units of a scan between two looks at whether it is somebody else's turn. */
const STEP_UNITS = 1000;

type Class = 'small' | 'large' | 'addressable' | 'ephemeral';

function classOf(entry: Entry): Class {
  if (isEphemeral(entry.kind)) return 'ephemeral';
  if (slotOf(entry) !== undefined) return 'addressable';
  return entry.json.length > SMALL_BYTES ? 'large' : 'small';
}

/** The events that a relay keeps, in memory. */
export class Store {
  readonly #limits: Limits;
  readonly #index = new EventIndex();
  readonly #tombstones = new Tombstones();
  /** The id that now holds each replaceable or addressable slot. */
  readonly #slots = new Map<string, string>();
  readonly #classes: Readonly<Record<Class, FairShares<Entry>>> = {
    small: new FairShares(WHOLE / 4),
    large: new FairShares(WHOLE / 4),
    addressable: new FairShares(WHOLE / 4),
    ephemeral: new FairShares(WHOLE / 4),
  };
  /** When events end that do. */
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

  add(entry: Entry, nowSeconds: number): StoreOutcome {
    return finish(this.adding(entry, nowSeconds));
  }

  /** Keeps the event unless it is known, deleted, its slot already holds a newer one, or the store is full. */
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

  /** What the filters ask for, each event once, newest first; of one second, the lowest id first. */
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

  /** Events that the filters may match, each looked at when they are asked for. */
  candidates(filters: readonly CompiledFilter[]): number {
    return filters.reduce((sum, filter) => sum + this.#index.countOf(filter), 0);
  }

  /** All that one filter asks for, whatever its limit, in no order. */
  *matching(filter: CompiledFilter, nowSeconds: number): Work<readonly Entry[]> {
    const entries: Entry[] = [];
    yield* this.#scan(filter, nowSeconds, (entry) => entries.push(entry));
    return entries;
  }

  count(filters: readonly CompiledFilter[], nowSeconds: number): number {
    return finish(this.counting(filters, nowSeconds));
  }

  /** How many events match any of the filters; their limits do not count. */
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

  /** Takes away all events that are over. */
  removeOver(nowSeconds: number): void {
    this.#sweptSeconds = nowSeconds;
    for (const [entry, end] of this.#ends) if (end <= nowSeconds) this.remove(entry);
  }

  /** When the event is over, by its own word or as an ephemeral one. */
  #endOf(entry: Entry): number | undefined {
    const expiration = expirationOf(entry);
    if (!isEphemeral(entry.kind)) return expiration;
    const end = entry.created_at + this.#limits.ephemeralKeepSeconds;
    return Math.min(end, expiration ?? end);
  }

  /** The share of the store that an event takes: of the number, the bytes or the index, whichever is most. */
  #weigh(entry: Entry): number {
    const { maxStoredEvents, maxStoredBytes, maxIndexBytes } = this.#limits;
    const share = Math.max(
      1 / maxStoredEvents,
      entry.json.length / maxStoredBytes,
      indexBytesOf(entry) / maxIndexBytes,
    );
    return Math.floor(share * WHOLE);
  }

  /** Looks at all that the filter may match and is here now; those that are over leave the store. */
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

  /** Takes away what a deletion or a request to vanish names. */
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

/** The newest of what is added, so many at most. */
class Newest {
  readonly #most: number;
  #entries: Entry[] = [];
  #hasMore = false;

  constructor(most: number) {
    this.#most = most;
  }

  /** Whether some had to go. */
  get hasMore(): boolean {
    return this.#hasMore;
  }

  add(entry: Entry): void {
    this.#entries.push(entry);
    if (this.#entries.length > 2 * this.#most + STEP_UNITS) this.#cut();
  }

  /** In order, newest first. */
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
