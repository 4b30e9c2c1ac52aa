/** NIP-01 filters, and the same test a relay makes: relays are not trusted to have made it. */
import type { SignedEvent } from '../event.ts';

export interface Filter {
  readonly ids?: readonly string[];
  readonly authors?: readonly string[];
  readonly kinds?: readonly number[];
  readonly since?: number;
  readonly until?: number;
  /** How many stored events at most; says nothing about live ones. */
  readonly limit?: number;
  /** Events whose first value of that single-letter tag is one of these. */
  readonly [tag: `#${string}`]: readonly string[];
}

/** Whether the event is one this filter asks for. */
export function matchesFilter(filter: Filter, event: SignedEvent): boolean {
  const { ids, authors, kinds, since, until } = filter;
  if (ids && !ids.includes(event.id)) return false;
  if (authors && !authors.includes(event.pubkey)) return false;
  if (kinds && !kinds.includes(event.kind)) return false;
  if (since !== undefined && event.created_at < since) return false;
  if (until !== undefined && event.created_at > until) return false;
  for (const [key, values] of Object.entries(filter)) {
    if (!key.startsWith('#') || !Array.isArray(values)) continue;
    const name = key.slice(1);
    if (!event.tags.some((tag) => tag[0] === name && values.includes(tag[1] ?? ''))) return false;
  }
  return true;
}
