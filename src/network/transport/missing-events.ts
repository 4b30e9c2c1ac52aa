/**
 * Finds stored events that a relay has and we lack: page by page (NIP-67), or by set reconciliation of ids (NIP-77).
 */
import type { EoseHint, Filter } from './frames.ts';

/** Maximum ids from a reconciliation; beyond, events are requested with ordinary filters. */
const MAX_NEED = 8192;
const MAX_ROUNDS = 100;
/** Largest timestamp: the codec uses 32 bits. */
const LATEST = 2 ** 31 - 1;

/** The codec, imported on demand: it has no entry point of its own, and the whole package is rarely needed. */
let loading: Promise<typeof import('nostr-tools').nip77> | undefined;

/** Our side of a set reconciliation (NIP-77), which finds the events that a relay has and we lack. */
export async function createReconciliation(
  known: Iterable<readonly [id: string, createdAt: number]>,
) {
  loading ??= import('nostr-tools').then(({ nip77 }) => nip77);
  const { Negentropy, NegentropyStorageVector } = await loading;
  const storage = new NegentropyStorageVector();
  for (const [id, createdAt] of known) {
    if (createdAt <= LATEST) storage.insert(createdAt, id);
  }
  storage.seal();
  const side = new Negentropy(storage);
  const need = new Set<string>();
  let rounds = 0;
  return {
    opening: side.initiate(),
    need,
    /** Returns the next message, or null at the end. Throws if the message is malformed or names too many ids. */
    answer(message: string): string | null {
      if (++rounds > MAX_ROUNDS) throw new RangeError(`no end after ${MAX_ROUNDS} rounds`);
      return side.reconcile(message, undefined, (id) => {
        need.add(id);
        if (need.size > MAX_NEED) throw new RangeError(`more than ${MAX_NEED} ids`);
      });
    },
  };
}

/** What a relay sent before one EOSE. */
export interface Page {
  readonly count: number;
  /** The `created_at` of the last event: where the relay stopped. */
  readonly last: number;
  readonly hint: EoseHint | undefined;
}

/** Relays that stop early without a hint send at least 100 events. */
const ASSUMED_LIMIT = 100;
const MAX_PAGES = 200;

/** Reports whether another request may return more events. A filter with ids or a limit is complete after one. */
export function mayHaveMore(filter: Filter, { count, hint }: Page): boolean {
  if (count === 0 || filter.ids || filter.limit !== undefined) return false;
  return hint === undefined ? count >= ASSUMED_LIMIT : hint === 'more';
}

/** Reads the pages after the first one, with `until` inclusive; true if everything certainly came. */
export async function readOn(
  filter: Filter,
  first: Page,
  ask: (filter: Filter) => Promise<Page | undefined>,
): Promise<boolean> {
  let page: Page | undefined = first;
  let until = Number.POSITIVE_INFINITY;
  let isWhole = true;
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    if (!mayHaveMore(filter, page)) return isWhole;
    if (page.last < until) until = page.last;
    else {
      until--;
      isWhole = false; // the whole page has one timestamp, so that second may have more events
    }
    if (until < (filter.since ?? 0)) return isWhole;
    page = await ask({ ...filter, until });
    if (!page) return false;
  }
  return false;
}

/** Returns the filters restricted to events dated after this time (milliseconds of our clock). */
export function since(ms: number, filters: readonly Filter[]): readonly Filter[] {
  const seconds = Math.floor(ms / 1000);
  return filters.map((filter) => ({ ...filter, since: Math.max(seconds, filter.since ?? 0) }));
}
