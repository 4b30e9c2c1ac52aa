/** Events in order of arrival, and the few that a filter can match, found by key instead of by looking at all. */
import type { Entry } from './event.ts';
import type { CompiledFilter } from './filter.ts';
import { idKey, keysOf } from './index-keys.ts';

/** What an event takes in memory besides its JSON, measured: itself, each tag, each item of a tag, each key it is filed under. */
const [ENTRY_BYTES, TAG_BYTES, ITEM_BYTES, KEY_BYTES] = [1000, 48, 24, 60] as const;

/** What an event takes in memory besides its JSON: an estimate on the high side, for strings of two bytes a character. */
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
  /** By id, in order of arrival. */
  readonly #entries = new Map<string, Entry>();
  /** A key that files a single event needs no set. */
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

  /** A superset of what the filter matches as it is now, the shortest of its groups; some may be in it twice. */
  candidates(filter: CompiledFilter): readonly Entry[] {
    const { keys } = this.#shortest(filter);
    if (!keys) return [...this.#entries.values()];
    const found: Entry[] = [];
    for (const key of keys) for (const entry of this.under(key)) found.push(entry);
    return found;
  }

  /** How many candidates there are. */
  countOf(filter: CompiledFilter): number {
    return this.#shortest(filter).count;
  }

  /** The group with the fewest events; no keys when looking at all is shorter. */
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
