/**
 * The directory of holders: finds who holds an object and announces what this machine holds, over relays and
 * between holder servers hop by hop; and the HTTP route at which a holder server answers and takes announcements.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { anySignal, systemClock } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import type { AskHttp, HttpAnswer } from '../../network/chunks/http-source.ts';
import { readUpTo } from '../../network/chunks/source.ts';
import type { LookupOptions } from '../../network/directory/directory.ts';
import {
  type Directory,
  type DirectoryOptions,
  isAskable,
  type Lookup,
  lookUp,
  MOST_ANSWER_BYTES,
  MOST_EVENT_BYTES,
  readAnswer,
} from '../../network/directory/directory.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/frames.ts';
import type { PublishOutcome } from '../../network/transport/outbox.ts';
import type { QueryOptions, QueryResult } from '../../network/transport/query.ts';
import { type HolderRecord, holderFilter, newestHolders } from '../../network/wire/holders.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { createAskHttp } from './sources.ts';

const PATH = /^\/directory\/([0-9a-f]{64})?$/;
/** One ask, whatever the other side does. */
const ASK_MS = 5000;

/** Answers `GET /directory/<64 hex digits>` and takes `PUT /directory/`; false of a request that is neither. */
export const directoryRoute =
  (directory: Directory) =>
  (request: IncomingMessage, response: ServerResponse): boolean => {
    const [path, target] = PATH.exec(request.url ?? '') ?? [];
    if (path === undefined) return false;
    if (request.method === 'GET' && target !== undefined) {
      reply(response, 200, directory.answer(target) ?? '{}');
    } else if (request.method === 'PUT' && target === undefined) {
      void take(directory, request, response);
    } else reply(response, 405, '{}');
    return true;
  };

function reply(response: ServerResponse, status: number, text: string): void {
  const body = utf8(text);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': String(body.length),
  });
  response.end(body);
}

const STATUS: Readonly<Record<string, number>> = { busy: 429, 'too-large': 413 };

async function take(
  directory: Directory,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const text = await textOf(request, MOST_EVENT_BYTES).catch(() => undefined);
  if (text === undefined) {
    reply(response, 413, '{}');
    request.destroy();
    return;
  }
  const taken = directory.take(text);
  if (taken.ok) reply(response, 200, '{}');
  else
    reply(response, STATUS[taken.issue.code] ?? 400, JSON.stringify({ reason: taken.issue.code }));
}

export interface DirectoryPort {
  readonly ask: LookupOptions['ask'];
  /** The same of an address that a person named, whose key is not known. */
  askAt(url: string, target: string): Promise<readonly HolderRecord[] | undefined>;
  /** Tells a contact of an announcement; whether it took it. */
  tell(contact: HolderRecord, event: SignedEvent): Promise<boolean>;
  tellAt(url: string, event: SignedEvent): Promise<boolean>;
}

export interface DirectoryPortOptions extends Omit<DirectoryOptions, 'own'> {
  /** Asks strangers' addresses: which of them may be asked is its matter. */
  readonly http: AskHttp;
  /** Asks those that a person named. */
  readonly peerHttp: AskHttp;
  readonly signal: AbortSignal;
}

/** Asks directories over HTTP: each ask is bounded in bytes and time, and nothing in an answer counts unverified. */
export function createDirectoryPort(options: DirectoryPortOptions): DirectoryPort {
  const { http, peerHttp, signal } = options;
  const within = async <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new Error(`no answer in ${ASK_MS} ms`)), ASK_MS);
    const both = anySignal(signal, late.signal);
    try {
      return await work(both.signal);
    } finally {
      clearTimeout(timer);
      both.release();
    }
  };
  const askAt = (ask: AskHttp, url: string, target: string) =>
    within(async (stop) => {
      const answer = await ask(`${url}/directory/${target}`, { signal: stop });
      const text = await bodyOf(answer);
      return text === undefined ? undefined : readAnswer(text, options);
    });
  /** The first of its contacts that does it. */
  const firstOf = async <T>(
    { contacts }: HolderRecord,
    work: (url: string) => Promise<T | undefined>,
  ): Promise<T | undefined> => {
    for (const url of contacts) {
      const done = await work(url).catch(() => signal.throwIfAborted());
      if (done !== undefined) return done as T;
    }
    return undefined;
  };
  const tellAt = (ask: AskHttp, url: string, event: SignedEvent) =>
    within(async (stop) => {
      const body = utf8(JSON.stringify(event));
      const headers = { 'content-type': 'application/json', 'content-length': String(body.length) };
      const request = { method: 'PUT', headers, body, signal: stop } as const;
      const answer = await ask(`${url}/directory/`, request);
      answer.cancel();
      return answer.status === 200;
    });
  return {
    askAt: (url, target) => askAt(peerHttp, url, target),
    tellAt: (url, event) => tellAt(peerHttp, url, event),
    ask: (contact, target) => firstOf(contact, (url) => askAt(http, url, target)),
    tell: async (contact, event) =>
      (await firstOf(contact, async (url) => (await tellAt(http, url, event)) || undefined)) ??
      false,
  };
}

async function bodyOf(answer: HttpAnswer): Promise<string | undefined> {
  const isRead = answer.status === 200;
  const text = isRead ? await textOf(answer.body, MOST_ANSWER_BYTES) : undefined;
  if (text === undefined) answer.cancel();
  return text;
}

async function textOf(body: AsyncIterable<Uint8Array>, most: number): Promise<string | undefined> {
  const bytes = await readUpTo(body, most);
  return bytes && new TextDecoder().decode(bytes);
}

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

/** What a search is bounded by. */
export interface SearchBounds extends Pick<DirectorySearch, 'allowPrivate' | 'signal'> {
  readonly peers?: readonly string[] | undefined;
  readonly waitMs?: number;
}

/** Creates a search of the directory: relays first, then holders hop by hop. */
export function createSearch(
  relays: HolderRelays | undefined,
  { allowPrivate, signal, peers = [], waitMs = WAIT_MS }: SearchBounds,
): DirectorySearch {
  const port = createDirectoryPort({
    http: createAskHttp({ isTrusted: false, allowPrivate }),
    peerHttp: createAskHttp({ isTrusted: true, allowPrivate }),
    now: unixSeconds,
    allowPrivate,
    signal,
    crypto: nativeCrypto,
  });
  return { relays, peers, port, now: unixSeconds, allowPrivate, waitMs, signal };
}

export const unixSeconds = (): number => Math.floor(systemClock.now() / 1000);

/** How long relays may take to answer. */
const WAIT_MS = 5000;

export interface HolderSearchResult {
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
): Promise<HolderSearchResult> {
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
 * Makes an announcement known: to the relays, to the holders nearest to its own key, and to those nearest to each
 * object it names. What they answer fills the directory of this machine's own server.
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
    const lookup: Lookup = await lookUp(target, {
      contacts,
      enough: 0,
      ask: async (contact, wanted) => {
        const answer = await port.ask(contact, wanted);
        return answer?.filter(({ key }) => key !== own);
      },
    });
    asks += lookup.asks;
    for (const record of lookup.nearest) directory.contacts.add(record, now());
    for (const record of lookup.nearest.slice(0, TOLD)) {
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
