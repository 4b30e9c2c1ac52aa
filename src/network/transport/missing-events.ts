/** Finds events that a relay holds and we lack: reads on page by page (NIP-67), or compares ids (NIP-77). */
import type { EoseHint, Filter } from './frames.ts';

/** A relay that names more ids than this is asked in the ordinary way instead. */
const MAX_NEED = 8192;
const MAX_ROUNDS = 100;
/** The codec counts seconds in 32 bits. */
const LATEST = 2 ** 31 - 1;

/** One side of a set reconciliation (NIP-77): which events a relay has that we lack. */
export async function createReconciliation(
  known: Iterable<readonly [id: string, createdAt: number]>,
) {
  // this codec has no entry of its own, and the whole package is much to load for something rarely needed
  const { Negentropy, NegentropyStorageVector } = (await import('nostr-tools')).nip77;
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
    /** What to say next, or null at the end. Throws when the message makes no sense or the relay claims too much. */
    answer(message: string): string | null {
      if (++rounds > MAX_ROUNDS) throw new RangeError('no end after so many rounds');
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
  /** The time named by the one that came last: where the relay stopped. */
  readonly last: number;
  readonly hint: EoseHint | undefined;
}

/** Relays that stop early without a word stop after 100 events or more. */
const ASSUMED_LIMIT = 100;
const MAX_PAGES = 200;

/** Whether asking on can bring anything. A filter with ids or a limit has its own end. */
export function mayHaveMore(filter: Filter, { count, hint }: Page): boolean {
  if (count === 0 || filter.ids || filter.limit !== undefined) return false;
  return hint === undefined ? count >= ASSUMED_LIMIT : hint === 'more';
}

/** Reads on after a first page, with `until` inclusive; true when everything came for certain. */
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
      isWhole = false; // the page was all of one second, which may hold more
    }
    if (until < (filter.since ?? 0)) return isWhole;
    page = await ask({ ...filter, until });
    if (!page) return false;
  }
  return false;
}

/** The same filters, for events dated after this time of our clock. */
export function since(ms: number, filters: readonly Filter[]): readonly Filter[] {
  const seconds = Math.floor(ms / 1000);
  return filters.map((filter) => ({ ...filter, since: Math.max(seconds, filter.since ?? 0) }));
}
