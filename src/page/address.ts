/** What the part after # of the page's address says: which run, over which relays, or which file beside the page. */

export interface Address {
  /** `naddr1…`, a run id, or empty. */
  readonly run: string;
  readonly relays: readonly string[];
  readonly drand: readonly string[];
  /** An archive beside the page. */
  readonly events: string;
  /** A picture beside the page, of a run's own folder. */
  readonly local: string;
}

const MOST_RELAYS = 16;
const LONGEST = 4096;

/** `#naddr1…`, or `#run=…&relay=wss://…`. */
export function readAddress(hash: string): Address {
  const text = hash.replace(/^#/, '').slice(0, LONGEST);
  const isBare = /^(?:nostr:)?naddr1[a-z0-9]+$/.test(text) || /^[0-9a-f]{64}$/.test(text);
  const query = new URLSearchParams(isBare ? { run: text } : text);
  return {
    run: query.get('run') ?? '',
    relays: query.getAll('relay').slice(0, MOST_RELAYS),
    drand: query.getAll('drand').slice(0, MOST_RELAYS),
    events: query.get('events') ?? '',
    local: query.get('local') ?? '',
  };
}

/** The same as text, for links. */
export function writeAddress({ run, relays, drand, events, local }: Address): string {
  const query = new URLSearchParams();
  if (run !== '') query.set('run', run);
  for (const relay of relays) query.append('relay', relay);
  for (const url of drand) query.append('drand', url);
  if (events !== '') query.set('events', events);
  if (local !== '') query.set('local', local);
  return `#${query}`;
}
