/** Open subscriptions of all connections, filed under what they ask for, so that an event is tested against few of them. */
import type { Entry } from './event.ts';
import type { CompiledFilter } from './filter.ts';
import type { EventFrames } from './frames.ts';
import { idKey, keysOf, kindKey, pairsOf } from './index-keys.ts';

/** One open REQ. */
export interface Subscription {
  readonly id: string;
  readonly filters: readonly CompiledFilter[];
  /** Length of the message that opened it, and some for each filter. */
  readonly bytes: number;
  /** Sends it an event, unless it has been closed. */
  deliver(frames: EventFrames): Promise<unknown> | undefined;
}

/** Where filters without any list are filed: every event may match them. */
const ALL: readonly string[] = ['*'];

export class LiveIndex {
  readonly #filed = new Map<string, Set<Subscription>>();
  /** The keys under which each is filed. */
  readonly #places = new Map<Subscription, readonly (readonly string[])[]>();

  add(subscription: Subscription): void {
    const places = subscription.filters.map((filter) => this.#quietest(filter));
    this.#places.set(subscription, places);
    for (const key of places.flat()) {
      const filed = this.#filed.get(key);
      if (filed) filed.add(subscription);
      else this.#filed.set(key, new Set([subscription]));
    }
  }

  remove(subscription: Subscription): void {
    for (const key of this.#places.get(subscription)?.flat() ?? []) {
      const filed = this.#filed.get(key);
      filed?.delete(subscription);
      if (filed?.size === 0) this.#filed.delete(key);
    }
    this.#places.delete(subscription);
  }

  /** The subscriptions with a filter that matches, each once, and how many filters were tried to find them. */
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

  /** Of the lists of a filter, the one whose keys are in least demand so far; a match has a key of every list. */
  #quietest({ places }: CompiledFilter): readonly string[] {
    let best = ALL;
    let least = Number.POSITIVE_INFINITY;
    for (const keys of places) {
      const demand = keys.reduce((sum, key) => sum + (this.#filed.get(key)?.size ?? 0), 0);
      if (demand >= least) continue;
      [best, least] = [keys, demand];
    }
    return best;
  }
}
