/**
 * Indexes of stored events and of open subscriptions by author, kind and tag, so that each query tests few candidates.
 */
import type { Entry } from './event.ts';
import { type CompiledFilter, idKey, keysOf, kindKey, pairsOf } from './filter.ts';
import type { EventFrames } from './messages.ts';

/** Measured memory of an event besides its JSON: per event, tag, item of a tag and index key. */
const [ENTRY_BYTES, TAG_BYTES, ITEM_BYTES, KEY_BYTES] = [1000, 48, 24, 60] as const;

/** Returns an upper estimate of an event's memory besides its JSON, at two bytes per character. */
export function indexBytesOf(entry: Entry): number {
  let bytes = ENTRY_BYTES;
  for (const tag of entry.tags) {
    bytes += TAG_BYTES;
    for (const item of tag) bytes += ITEM_BYTES + 2 * item.length;
    if (tag[0]!.length === 1) bytes += KEY_BYTES + 2 * (tag[1]?.length ?? 0);
  }
  return bytes;
}

export class EventIndex {
  /** Events by id, in order of arrival. */
  readonly #entries = new Map<string, Entry>();
  /** Events by index key; a key with a single event needs no set. */
  readonly #filed = new Map<string, Entry | Set<Entry>>();

  get size(): number {
    return this.#entries.size;
  }

  get(id: string): Entry | undefined {
    return this.#entries.get(id);
  }

  values(): Iterable<Entry> {
    return this.#entries.values();
  }

  under(key: string): readonly Entry[] {
    const filed = key[0] === idKey('') ? this.#entries.get(key.slice(1)) : this.#filed.get(key);
    if (!filed) return [];
    return filed instanceof Set ? [...filed] : [filed];
  }

  add(entry: Entry): void {
    this.#entries.set(entry.id, entry);
    for (const key of keysOf(entry)) {
      const filed = this.#filed.get(key);
      if (filed instanceof Set) filed.add(entry);
      else this.#filed.set(key, filed ? new Set([filed, entry]) : entry);
    }
  }

  remove(entry: Entry): void {
    this.#entries.delete(entry.id);
    for (const key of keysOf(entry)) {
      const filed = this.#filed.get(key);
      if (filed === entry) this.#filed.delete(key);
      if (!(filed instanceof Set)) continue;
      filed.delete(entry);
      if (filed.size === 0) this.#filed.delete(key);
    }
  }

  /** Returns a superset of the matching events: the smallest group of the filter. May contain an event twice. */
  candidates(filter: CompiledFilter): readonly Entry[] {
    const { keys } = this.#shortest(filter);
    if (!keys) return [...this.#entries.values()];
    const entries: Entry[] = [];
    for (const key of keys) for (const entry of this.under(key)) entries.push(entry);
    return entries;
  }

  /** Returns the number of candidates. */
  countOf(filter: CompiledFilter): number {
    return this.#shortest(filter).count;
  }

  /** Returns the group with the fewest events; no keys if scanning all events is cheaper. */
  #shortest({ groups }: CompiledFilter): { count: number; keys?: readonly string[] } {
    let best: { count: number; keys?: readonly string[] } = { count: this.size };
    for (const keys of groups) {
      const count = keys.reduce((sum, key) => sum + this.#count(key), 0);
      if (count <= best.count) best = { count, keys };
    }
    return best;
  }

  #count(key: string): number {
    if (key[0] === idKey('')) return this.#entries.has(key.slice(1)) ? 1 : 0;
    const filed = this.#filed.get(key);
    return filed instanceof Set ? filed.size : filed ? 1 : 0;
  }
}

/** One open REQ. */
export interface Subscription {
  readonly id: string;
  readonly filters: readonly CompiledFilter[];
  /** Bytes of the message that opened it, plus a constant per filter. */
  readonly bytes: number;
  /** Sends an event to it, unless it was closed. */
  deliver(frames: EventFrames): Promise<unknown> | undefined;
}

/** Index key of filters without any list: every event may match them. */
const ALL: readonly string[] = ['*'];

export class LiveIndex {
  readonly #filed = new Map<string, Set<Subscription>>();
  /** Index keys of each subscription. */
  readonly #indexKeys = new Map<Subscription, readonly (readonly string[])[]>();

  add(subscription: Subscription): void {
    const indexKeys = subscription.filters.map((filter) => this.#quietest(filter));
    this.#indexKeys.set(subscription, indexKeys);
    for (const key of indexKeys.flat()) {
      const filed = this.#filed.get(key);
      if (filed) filed.add(subscription);
      else this.#filed.set(key, new Set([subscription]));
    }
  }

  remove(subscription: Subscription): void {
    for (const key of this.#indexKeys.get(subscription)?.flat() ?? []) {
      const filed = this.#filed.get(key);
      filed?.delete(subscription);
      if (filed?.size === 0) this.#filed.delete(key);
    }
    this.#indexKeys.delete(subscription);
  }

  /** Returns the subscriptions that match, each once, and how many filters were tested. */
  matching(entry: Entry): { listeners: ReadonlySet<Subscription>; tested: number } {
    const listeners = new Set<Subscription>();
    let tested = 0;
    const keys = keysOf(entry);
    for (const key of [...ALL, idKey(entry.id), ...keys, ...pairsOf([kindKey(entry.kind)], keys)]) {
      for (const subscription of this.#filed.get(key) ?? []) {
        if (listeners.has(subscription)) continue;
        tested += subscription.filters.length;
        const { filters } = subscription;
        if (filters.some((filter) => filter.matches(entry))) listeners.add(subscription);
      }
    }
    return { listeners, tested };
  }

  /**
   * Returns the list of a filter whose keys have the fewest subscriptions; a matching event has a key of every list.
   */
  #quietest({ indexKeys }: CompiledFilter): readonly string[] {
    let best = ALL;
    let least = Number.POSITIVE_INFINITY;
    for (const keys of indexKeys) {
      const demand = keys.reduce((sum, key) => sum + (this.#filed.get(key)?.size ?? 0), 0);
      if (demand >= least) continue;
      [best, least] = [keys, demand];
    }
    return best;
  }
}
