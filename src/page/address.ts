/** Parses and writes the part after # in the page's address: a run and its relays, or a file on the page's server. */
import { parseRunName } from '../certified/wire/run-names.ts';

export interface Address {
  /** `naddr1…`, `nevent1…` of a checkpoint, a run id, or empty, which lists the runs on the relays. */
  readonly run: string;
  readonly relays: readonly string[];
  /** Endpoints of a drand chain, for runs with a beacon. */
  readonly drand: readonly string[];
  /** Name of an archive on the page's server. */
  readonly events: string;
  /** Name of a picture from a local run folder, on the page's server. */
  readonly local: string;
  /** Replay the run as soon as it is loaded. */
  readonly verify: boolean;
  /** Report results to the server of the page; set by `nostrain demo browser`. */
  readonly tell: boolean;
}

/** Maximum number of relays. */
const MOST_RELAYS = 16;
/** Maximum characters of the address. */
const LONGEST = 4096;

/** Parses `#naddr1…`, `#run=…&relay=wss://…`, or `#events=…`. */
export function readAddress(hash: string): Address {
  const name = parseRunName(hash);
  const query = name?.params ?? new URLSearchParams(hash.replace(/^#/, '').slice(0, LONGEST));
  return {
    run: name?.run ?? query.get('run') ?? /^#(nevent1[0-9a-z]+)/.exec(hash)?.[1] ?? '',
    relays: query.getAll('relay').slice(0, MOST_RELAYS),
    drand: query.getAll('drand').slice(0, MOST_RELAYS),
    events: query.get('events') ?? '',
    local: query.get('local') ?? '',
    verify: query.has('verify'),
    tell: query.has('tell'),
  };
}

export function writeAddress({ run, relays, drand, events, local, ...switches }: Address): string {
  const query = new URLSearchParams();
  if (run !== '') query.set('run', run);
  for (const relay of relays) query.append('relay', relay);
  for (const url of drand) query.append('drand', url);
  if (events !== '') query.set('events', events);
  if (local !== '') query.set('local', local);
  for (const name of ['verify', 'tell'] as const) if (switches[name]) query.set(name, '');
  return `#${query}`;
}
