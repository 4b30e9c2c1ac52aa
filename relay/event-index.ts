/** Events in order of arrival, and the few that a filter can match, found by key instead of by looking at all. */
import type { Entry } from './event.ts';
import type { CompiledFilter } from './filter.ts';
import { idKey, keysOf } from './index-keys.ts';

export class EventIndex {
  /** By id, in order of arrival. */
  readonly #entries = new Map<string, Entry>();
  readonly #filed = new Map<string, Set<Entry>>();

  get size(): number {
    return this.#entries.size;
  }

  get(id: string): Entry | undefined {
    return this.#entries.get(id);
  }

  values(): Iterable<Entry> {
    return this.#entries.values();
  }

  under(key: string): Iterable<Entry> {
    return this.#filed.get(key) ?? [];
  }

  add(entry: Entry): void {
    this.#entries.set(entry.id, entry);
    for (const key of keysOf(entry)) {
      const filed = this.#filed.get(key);
      if (filed) filed.add(entry);
      else this.#filed.set(key, new Set([entry]));
    }
  }

  remove(entry: Entry): void {
    this.#entries.delete(entry.id);
    for (const key of keysOf(entry)) {
      const filed = this.#filed.get(key);
      filed?.delete(entry);
      if (filed?.size === 0) this.#filed.delete(key);
    }
  }

  /** A superset of what the filter matches, each entry once: the shortest of its groups. */
  candidates({ groups }: CompiledFilter): Iterable<Entry> {
    let best: readonly string[] | undefined;
    let least = this.size;
    for (const keys of groups) {
      const count = keys.reduce((sum, key) => sum + this.#count(key), 0);
      if (count > least) continue;
      best = keys;
      least = count;
    }
    if (!best) return this.values();
    const found = new Set<Entry>();
    for (const key of best) for (const entry of this.#lookUp(key)) found.add(entry);
    return found;
  }

  #lookUp(key: string): Iterable<Entry> {
    if (key[0] !== idKey('')) return this.under(key);
    const entry = this.#entries.get(key.slice(1));
    return entry ? [entry] : [];
  }

  #count(key: string): number {
    if (key[0] !== idKey('')) return this.#filed.get(key)?.size ?? 0;
    return this.#entries.has(key.slice(1)) ? 1 : 0;
  }
}
