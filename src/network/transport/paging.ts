/** Reading on where a relay stopped: pages by `until`, newest first, until the relay has no more or says so (NIP-67). */
import type { Filter } from './filter.ts';
import type { EoseHint } from './frames.ts';

/** What a relay sent before one EOSE. */
export interface Page {
  /** Events that match, also those known before. */
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

/**
 * Reads on after a first page, with `until` inclusive; resolves to whether all came for certain: not when one second
 * holds more than a page, when pages have no end, or when the relay stops answering.
 */
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
