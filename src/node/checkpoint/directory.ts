/**
 * The directory of holders: finds the holders of an object and announces what this machine holds, over relays and from
 * holder server to holder server (Kademlia). Also the HTTP route that answers lookups and accepts announcements.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { anySignal, systemClock } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import type { AskHttp, HttpAnswer } from '../../network/chunks/http-source.ts';
import { readUpTo } from '../../network/chunks/source.ts';
import { friend } from '../../network/directory/contacts.ts';
import type { LookupOptions } from '../../network/directory/directory.ts';
import {
  type Directory,
  type DirectoryOptions,
  isAskable,
  type Lookup,
  MOST_ANSWER_BYTES,
  MOST_EVENT_BYTES,
  readAnswer,
  searchDirectory,
} from '../../network/directory/directory.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/frames.ts';
import type { PublishOutcome } from '../../network/transport/publish-outcome.ts';
import type { QueryOptions, QueryResult } from '../../network/transport/query.ts';
import { isPublicIp } from '../../network/transport/relay-urls.ts';
import { type HolderRecord, holderFilter, newestHolders } from '../../network/wire/holders.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { createAskHttp } from '../net/ask-http.ts';
import { addressOf } from '../net/remote-address.ts';

const PATH = /^\/directory\/([0-9a-f]{64})?$/;
/** Time limit of one request, in milliseconds. */
const ASK_MS = 5000;

/** Handles `GET /directory/<64 hex digits>` and `PUT /directory/`. Returns false for any other path. */
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
  const address = addressOf(request.socket);
  const taken = directory.take(text, isPublicIp(address) ? address : friend);
  if (taken.ok) reply(response, 200, '{}');
  else
    reply(response, STATUS[taken.issue.code] ?? 400, JSON.stringify({ reason: taken.issue.code }));
}

export interface DirectoryPort {
  readonly ask: LookupOptions['ask'];
  /** Asks an address that the user named, whose key is not known. */
  askAt(url: string, target: string): Promise<readonly HolderRecord[] | undefined>;
  /** Sends an announcement to a contact. Returns whether it was accepted. */
  tell(contact: HolderRecord, event: SignedEvent): Promise<boolean>;
  tellAt(url: string, event: SignedEvent): Promise<boolean>;
}

export interface DirectoryPortOptions extends Omit<DirectoryOptions, 'localKey'> {
  /** Sends requests to addresses from strangers; it rejects those that are not allowed. */
  readonly http: AskHttp;
  /** Sends requests to addresses that the user named. */
  readonly peerHttp: AskHttp;
  readonly signal: AbortSignal;
}

/** Creates a client of directories over HTTP. Requests are limited in bytes and time, and every answer is verified. */
export function createDirectoryPort(options: DirectoryPortOptions): DirectoryPort {
  const { http, peerHttp, signal } = options;
  const within = async <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const both = anySignal(signal);
    const timer = setTimeout(() => both.end(new Error(`no answer in ${ASK_MS} ms`)), ASK_MS);
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
  /** Returns the result of the first contact address that gives one. */
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
  /** Undefined if no relay is named. */
  readonly relays: HolderRelays | undefined;
  /** Addresses of holder servers that the user named. */
  readonly peers: readonly string[];
  readonly port: DirectoryPort;
  /** Unix seconds. */
  now(): number;
  /** Allows contacts in private networks. */
  readonly allowPrivate: boolean;
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

/** Limits of a search. */
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

/** Milliseconds that relays may take to answer. */
const WAIT_MS = 5000;

export interface HolderSearchResult extends Pick<Lookup, 'holders' | 'asks' | 'hops'> {
  /** Whether relays alone gave the result, or holders were asked too. */
  readonly by: 'relays' | 'holders';
}

/** Number of nearest holders that an announcement is sent to. */
const ANNOUNCED_TO = 8;
/** Maximum number of contacts from relays that a lookup starts at. */
const MOST_STARTS = 12;

/** Finds holders of an object on relays; if those know fewer than `enough`, holders are asked too. */
export async function findHolders(
  object: Digest,
  enough: number,
  search: DirectorySearch,
): Promise<HolderSearchResult> {
  const known = await askRelays(search, object);
  if (known.length >= enough) return { holders: known, by: 'relays', asks: 0, hops: 0 };
  const { holders, asks, hops } = await searchDirectory(object, {
    contacts: await startsOf(object, search),
    ask: search.port.ask,
    enough,
  });
  const keys = new Set(known.map(({ key }) => key));
  const all = [...known, ...holders.filter(({ key }) => !keys.has(key))];
  return { holders: all, by: 'holders', asks, hops };
}

/** Returns announcements on relays by holders at allowed addresses, of one object or of any. */
async function askRelays(
  search: DirectorySearch,
  object?: Digest,
): Promise<readonly HolderRecord[]> {
  const { relays, waitMs, signal, now, allowPrivate } = search;
  if (relays === undefined) return [];
  const options = { waitMs, signal, maxPerAuthor: 1 };
  const { events } = await relays.query([holderFilter(object)], options);
  return [...newestHolders(events, now()).values()].flatMap((record) => {
    const contacts = record.contacts.filter((url) => allowPrivate || isAskable(url));
    return contacts.length > 0 ? [{ ...record, contacts }] : [];
  });
}

/** Returns the contacts that a lookup starts at: some from relays, and those that the user's peers know. */
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
  /** Number of relays that accepted it. */
  readonly relays: number;
  /** Number of holders that accepted it. */
  readonly holders: number;
  readonly asks: number;
}

/**
 * Sends an announcement to the relays, to the holders nearest to its author's key, and to those nearest to each object
 * it names. Their answers fill the directory of this machine's server.
 */
export async function announce(
  event: SignedEvent,
  objects: readonly Digest[],
  directory: Directory,
  search: DirectorySearch,
): Promise<Announced> {
  const { relays, port, peers, now } = search;
  const me = event.pubkey;
  directory.localRecord = event;
  const outcomes = (await relays?.publish(event)) ?? [];
  const accepted = new Set<WorkerId>();
  let asks = 0;
  for (const target of [me, ...objects]) {
    const contacts = (await startsOf(target, search)).filter(({ key }) => key !== me);
    const lookup: Lookup = await searchDirectory(target, {
      contacts,
      enough: 0,
      ask: async (contact, wanted) => {
        const answer = await port.ask(contact, wanted);
        return answer?.filter(({ key }) => key !== me);
      },
    });
    asks += lookup.asks;
    for (const key of lookup.silent) directory.contacts.remove(key);
    for (const record of lookup.nearest) directory.contacts.add(record, now());
    for (const record of lookup.nearest.slice(0, ANNOUNCED_TO)) {
      if (!accepted.has(record.key) && (await port.tell(record, event))) accepted.add(record.key);
    }
  }
  // the holders of a run know each other only by address
  const peersAccepted = await Promise.all(
    peers.map((url) => port.tellAt(url, event).catch(() => false)),
  );
  return {
    relays: outcomes.filter(({ status }) => status === 'accepted').length,
    holders: Math.max(accepted.size, peersAccepted.filter(Boolean).length),
    asks,
  };
}
