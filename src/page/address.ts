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
  /** Replays the run as soon as it is here. */
  readonly verify: boolean;
  /** What it finds is told to the server of the page: `nostrain demo browser`. */
  readonly tell: boolean;
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
    verify: query.has('verify'),
    tell: query.has('tell'),
  };
}

export function writeAddress({ run, relays, drand, events, local, ...asked }: Address): string {
  const query = new URLSearchParams();
  if (run !== '') query.set('run', run);
  for (const relay of relays) query.append('relay', relay);
  for (const url of drand) query.append('drand', url);
  if (events !== '') query.set('events', events);
  if (local !== '') query.set('local', local);
  for (const name of ['verify', 'tell'] as const) if (asked[name]) query.set(name, '');
  return `#${query}`;
}
