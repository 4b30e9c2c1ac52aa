/**
 * Finds who holds an object, and makes known what this machine holds: over relays, where one filter is enough, and between holder servers hop by hop
 * where relays do not know enough holders.
 */
import { type Directory, isAskable } from '../../network/directory/directory.ts';
import { type Lookup, lookUp } from '../../network/directory/lookup.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/frames.ts';
import type { PublishOutcome } from '../../network/transport/publishing.ts';
import type { QueryOptions, QueryResult } from '../../network/transport/query.ts';
import { type HolderRecord, holderFilter, newestHolders } from '../../network/wire/holders.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { DirectoryPort } from './directory-route.ts';

export interface HolderRelays {
  query(filters: readonly Filter[], options: QueryOptions): Promise<QueryResult>;
  publish(event: SignedEvent): Promise<readonly PublishOutcome[]>;
}

export interface DirectorySearch {
  /** Undefined where no relay is named. */
  readonly relays: HolderRelays | undefined;
  /** Addresses of holder servers that a person named. */
  readonly peers: readonly string[];
  readonly port: DirectoryPort;
  /** Unix seconds. */
  now(): number;
  /** Contacts in private networks may be asked. */
  readonly allowPrivate: boolean;
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

export interface FoundHolders {
  readonly holders: readonly HolderRecord[];
  /** By relays alone, or by holders that were asked too. */
  readonly by: 'relays' | 'holders';
  /** Holders that were asked, and asks after each other. */
  readonly asks: number;
  readonly hops: number;
}

/** Holders of an object that is told of the nearest. */
const TOLD = 8;
/** Contacts of relays that a lookup starts at. */
const MOST_STARTS = 12;

/** Relays first; where those know of fewer than `enough`, holders are asked. */
export async function findHolders(
  object: Digest,
  enough: number,
  search: DirectorySearch,
): Promise<FoundHolders> {
  const known = await askRelays(search, object);
  if (known.length >= enough) return { holders: known, by: 'relays', asks: 0, hops: 0 };
  const { holders, asks, hops } = await lookUp(object, {
    contacts: await startsOf(object, search),
    ask: search.port.ask,
    enough,
  });
  const keys = new Set(known.map(({ key }) => key));
  const all = [...known, ...holders.filter(({ key }) => !keys.has(key))];
  return { holders: all, by: 'holders', asks, hops };
}

/** Announcements on relays, of holders that may be asked: of one object, or of any. */
async function askRelays(
  search: DirectorySearch,
  object?: Digest,
): Promise<readonly HolderRecord[]> {
  const { relays, waitMs, signal, now, allowPrivate } = search;
  if (relays === undefined) return [];
  const asked = { waitMs, signal, maxPerAuthor: 1 };
  const { events } = await relays.query([holderFilter(object)], asked);
  return [...newestHolders(events, now()).values()].flatMap((record) => {
    const contacts = record.contacts.filter((url) => allowPrivate || isAskable(url));
    return contacts.length > 0 ? [{ ...record, contacts }] : [];
  });
}

/** Where a lookup starts: some of those whom relays know, and whom the peers that a person named know. */
async function startsOf(
  target: Digest | WorkerId,
  search: DirectorySearch,
): Promise<readonly HolderRecord[]> {
  const { port, peers } = search;
  const [announced, ...answers] = await Promise.all([
    askRelays(search),
    ...peers.map((url) => port.askAt(url, target).catch(() => undefined)),
  ]);
  const all = [...answers.flatMap((answer) => answer ?? []), ...announced.slice(0, MOST_STARTS)];
  return [...new Map(all.map((record) => [record.key, record])).values()];
}

export interface Announced {
  /** Relays that took it. */
  readonly relays: number;
  /** Holders that took it. */
  readonly holders: number;
  readonly asks: number;
}

/**
 * Makes an announcement known: to the relays, to the holders nearest to its own key, and to those nearest to each object it names. What they answer
 * fills the directory of this machine's own server.
 */
export async function announce(
  event: SignedEvent,
  held: readonly Digest[],
  directory: Directory,
  search: DirectorySearch,
): Promise<Announced> {
  const { relays, port, peers, now } = search;
  const own = event.pubkey;
  directory.own = event;
  const outcomes = (await relays?.publish(event)) ?? [];
  const told = new Set<WorkerId>();
  let asks = 0;
  for (const target of [own, ...held]) {
    const contacts = (await startsOf(target, search)).filter(({ key }) => key !== own);
    const looked: Lookup = await lookUp(target, {
      contacts,
      enough: 0,
      ask: async (contact, wanted) => {
        const answer = await port.ask(contact, wanted);
        return answer?.filter(({ key }) => key !== own);
      },
    });
    asks += looked.asks;
    for (const record of looked.nearest) directory.contacts.add(record, now());
    for (const record of looked.nearest.slice(0, TOLD)) {
      if (!told.has(record.key) && (await port.tell(record, event))) told.add(record.key);
    }
  }
  // the first who come know each other by address alone
  const first = await Promise.all(peers.map((url) => port.tellAt(url, event).catch(() => false)));
  return {
    relays: outcomes.filter(({ status }) => status === 'accepted').length,
    holders: Math.max(told.size, first.filter(Boolean).length),
    asks,
  };
}
