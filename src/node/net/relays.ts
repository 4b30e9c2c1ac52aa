/** Relays from Node.js: opens WebSockets, reads NIP-11 documents, connects, and checks a run against relay limits. */

import { type LookupAddress, lookup } from 'node:dns';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { get as httpsGet } from 'node:https';
import type { LookupFunction } from 'node:net';
import { WebSocket } from 'ws';
import { anySignal, type RetryPolicy, systemClock } from '../../base/async.ts';
import { jsonIn } from '../../base/canonical-json.ts';
import { ConfigError, ok, type Result, refuse, wordsOf } from '../../base/errors.ts';
import { isCount, isFlag, isObject, isText } from '../../base/shape.ts';
import type { RelaySession } from '../../network/attachments/relay-chunks.ts';
import type { ErasureCode } from '../../network/chunks/reed-solomon.ts';
import { readUpTo } from '../../network/chunks/source.ts';
import { createSigner, type Signer } from '../../network/event.ts';
import type { RelayInfo } from '../../network/transport/limits.ts';
import { createRelaySet, type RelaySet } from '../../network/transport/relay-set.ts';
import {
  isLoopbackRelay,
  isPublicIp,
  parseRelayUrls,
  relaysOfKey,
  withoutSecrets,
} from '../../network/transport/relay-urls.ts';
import type { OpenSocket, Socket } from '../../network/transport/socket.ts';
import { brokenLimit, type EventSize } from '../../network/wire/cost.ts';
import type { RelayDescription } from '../../probe/index.ts';
import type { ShardCounts } from '../../run/field.ts';
import { createSecretKey } from '../files/keys.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { nativeSha256 } from '../native/sha256.ts';

/** Maximum bytes of a message; a relay that sends a longer one is disconnected. */
const MAX_PAYLOAD_BYTES = 32 << 20;
/** Milliseconds that a closing connection waits for the other side. */
const GOODBYE_MS = 500;

/** Opens a WebSocket without compression, since payloads are compressed already. */
export const openSocket: OpenSocket = (url) => open(url, {});

/** Opens a WebSocket to a relay that a stranger named; refuses host names that resolve to a private address. */
export const openPublicSocket: OpenSocket = (url) => open(url, { lookup: publicLookup() });

/** Reports whether a message is an EVENT, judged by its first bytes, since converting all of it costs a copy. */
const isEvent = (message: Buffer): boolean =>
  /^\s*\[\s*"EVENT"/.test(message.toString('latin1', 0, 64));

/** Masks protect caches on the way (RFC 6455, section 10.3): inside TLS and on this machine there are none. */
const withoutMask = (mask: Buffer): void => void mask.fill(0);

const open = (url: string, how: { readonly lookup?: LookupFunction }): Socket => {
  const isDirect = url.startsWith('wss:') || isLoopbackRelay(url);
  const ws = new WebSocket(url, {
    maxPayload: MAX_PAYLOAD_BYTES,
    perMessageDeflate: false,
    ...(isDirect && { generateMask: withoutMask }),
    ...how,
  });
  const socket: Socket = {
    get bufferedAmount() {
      return ws.bufferedAmount;
    },
    onopen: undefined,
    onmessage: undefined,
    onerror: undefined,
    onclose: undefined,
    send: (text) => ws.send(text, () => {}), // a failed send ends in `close`
    close: () => {
      ws.close(1000);
      setTimeout(() => ws.terminate(), GOODBYE_MS).unref();
    },
  };
  ws.on('open', () => socket.onopen?.());
  ws.on('message', (data, isBinary) => {
    const bytes = data as Buffer; // `ws` passes one Buffer per message by default
    const { longestEventBytes = MAX_PAYLOAD_BYTES } = socket;
    if (bytes.length > longestEventBytes && isEvent(bytes)) socket.onlong?.(bytes.length);
    else socket.onmessage?.(isBinary ? undefined : bytes.toString(), bytes.length);
  });
  ws.on('error', (error) => socket.onerror?.(error.message || String(error)));
  ws.on('close', (code, reason) => socket.onclose?.(code, reason.toString()));
  return socket;
};

type Resolve = (
  hostname: string,
  options: { readonly all: true; readonly family?: number },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/** Returns a `lookup` for sockets and requests that accepts public addresses only. */
export const publicLookup =
  (resolve: Resolve = lookup): LookupFunction =>
  (hostname, { all, family }, callback) => {
    const wanted = typeof family === 'number' ? { family } : {};
    resolve(hostname, { all: true, ...wanted }, (error, addresses) => {
      const usable = error ? [] : addresses.filter(({ address }) => isPublicIp(address));
      const [first] = usable;
      if (error) callback(error, '', 4);
      else if (!first) callback(new Error(`${hostname} leads to a private address`), '', 4);
      else if (all) callback(null, usable);
      else callback(null, first.address, first.family);
    });
  };

export interface RelayInfoOptions {
  /** Time limit of the request; default 5000. */
  readonly timeoutMs?: number;
  /** Maximum length of the document; default 65536. */
  readonly maxBytes?: number;
  readonly signal?: AbortSignal;
  /** Refuses private addresses, because a stranger named the relay. */
  readonly publicOnly?: boolean | undefined;
}

/** Returns the NIP-11 document of a relay, or the reason why not. Rejects only with `signal.reason`. */
export async function fetchRelayInfo(
  url: string,
  { maxBytes = 65_536, ...options }: RelayInfoOptions = {},
): Promise<Result<RelayInfo>> {
  try {
    const response = await ask(url, options);
    const status = response.statusCode ?? 0;
    if (status >= 300 && status < 400) return refuse('unreachable', '', 'it redirects');
    if (status !== 200) return refuse('http-status', '', `HTTP ${status}`);
    const bytes = await readUpTo(response, maxBytes);
    if (bytes === undefined) return refuse('too-large', '', `longer than ${maxBytes} bytes`);
    return parseRelayInfo(jsonIn(new TextDecoder().decode(bytes)));
  } catch (error) {
    options.signal?.throwIfAborted();
    return refuse('unreachable', '', wordsOf(error));
  }
}

/** Returns the NIP-11 document and the clock skew of a relay, as far as it gives them. */
export async function describeRelay(url: string, signal: AbortSignal): Promise<RelayDescription> {
  const [info, skewSeconds] = await Promise.all([
    fetchRelayInfo(url, { signal }),
    fetchClockSkew(url, { signal }),
  ]);
  return {
    ...(info.ok ? { stated: info.value } : {}),
    ...(skewSeconds === undefined ? {} : { skewSeconds }),
  };
}

/**
 * Returns by how many seconds this machine's clock is ahead of the relay's, from the `Date` header of an HTTP response
 * (accurate to 1 s); undefined without one.
 */
export async function fetchClockSkew(
  url: string,
  options: RelayInfoOptions = {},
): Promise<number | undefined> {
  const before = Date.now();
  try {
    const response = await ask(url, options);
    response.destroy();
    const relayMs = Date.parse(response.headers.date ?? '');
    const localMs = (before + Date.now()) / 2;
    return Number.isNaN(relayMs) ? undefined : (localMs - relayMs - 500) / 1000;
  } catch {
    return undefined;
  }
}

/** Sends one request without following redirects, with user and password. The time limit covers the whole response. */
function ask(
  url: string,
  { timeoutMs = 5000, signal, publicOnly = false }: RelayInfoOptions,
): Promise<IncomingMessage> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const target = new URL(url.replace(/^ws/i, 'http'));
  const options = {
    headers: { Accept: 'application/nostr+json' },
    agent: false,
    signal: signal ? AbortSignal.any([timeout, signal]) : timeout,
    ...(publicOnly ? { lookup: publicLookup() } : {}),
  };
  const get = target.protocol === 'https:' ? httpsGet : httpGet;
  return new Promise((resolve, reject) => {
    get(target, options, resolve).on('error', reject);
  });
}

const COUNTS = [
  'maxMessageLength',
  'maxContentLength',
  'maxSubscriptions',
  'maxFilters',
  'maxLimit',
  'maxEventTags',
  'minPowDifficulty',
  'createdAtLowerLimit',
  'createdAtUpperLimit',
] as const;
const FLAGS = ['authRequired', 'paymentRequired', 'restrictedWrites'] as const;

/** Picks the members with these names (in snake case) whose values have the right type. */
function pick<N extends string, V>(
  names: readonly N[],
  from: Readonly<Record<string, unknown>>,
  isOfType: (value: unknown) => value is V,
): { [K in N]?: V } {
  const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const members = names.map((name) => [name, from[snake(name)]] as const);
  return Object.fromEntries(members.filter(([, value]) => isOfType(value))) as { [K in N]?: V };
}

/** Parses a NIP-11 document. Fields that are unused, of a wrong type or out of range are ignored. */
export function parseRelayInfo(json: unknown): Result<RelayInfo> {
  if (!isObject(json)) return refuse('malformed', '', 'not an object');
  const limitation = isObject(json.limitation) ? json.limitation : {};
  const texts = pick(['name', 'software', 'version'], json, isText);
  const nips = Array.isArray(json.supported_nips) ? json.supported_nips.slice(0, 200) : [];
  return ok({
    ...Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, text.slice(0, 200)])),
    supportedNips: nips.filter((nip): nip is number => Number.isSafeInteger(nip)),
    limitation: { ...pick(COUNTS, limitation, isCount), ...pick(FLAGS, limitation, isFlag) },
  });
}

/** Options of relay connections. */
export interface Connection {
  /** Time limit to open one connection. */
  readonly openTimeoutMs: number;
  /** Retry policy of connecting and publishing. */
  readonly retry: RetryPolicy;
  /** Initial rate limit per relay, 0 for no limit; by default the relay set chooses it. */
  readonly eventsPerMinute?: number;
  /** Largest event to send, 0 for no limit; by default the relay set chooses it. */
  readonly maxEventBytes?: number;
  /** Time to wait for a first relay if none is up yet; default 0. */
  readonly waitMs?: number | undefined;
  /** Called when it begins to wait for a first relay, and when a relay is there after that. */
  readonly onNotice?: ((message: string) => void) | undefined;
  /** Called once for each relay that a query waits for. */
  readonly onWaiting?: ((relays: readonly string[]) => void) | undefined;
  /** Refuses private addresses, because a stranger named the relays. */
  readonly publicOnly?: boolean | undefined;
  /** Longer events are ignored unread. */
  readonly longestEventBytes?: number | undefined;
  /** How many of the relays to read, so that each event comes that often; default, and with 0, all of them. */
  readonly redundancy?: number | undefined;
}

/**
 * Connects to relays, and authenticates to those that require it (NIP-42). Throws a RelayError
 * (`relay/none-reachable`) if no relay answers in time.
 */
export async function connectRelays(
  urls: readonly string[],
  { publicOnly = false, redundancy = 0, waitMs, onNotice, ...connection }: Connection,
  auth: Signer,
  signal: AbortSignal,
): Promise<RelaySet> {
  const reconciling = new Set<string>();
  const relays = createRelaySet(urls, {
    openSocket: publicOnly ? openPublicSocket : openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
    fetchInfo: async (url, stop) => {
      const info = await fetchRelayInfo(url, { signal: stop, publicOnly });
      if (info.ok && info.value.supportedNips.includes(77)) reconciling.add(url);
      return info;
    },
    reconciles: (relay) => reconciling.has(relay),
    auth,
    ...connection,
    readRelays: (names) => relaysOfKey(names, auth.publicKey, redundancy),
  });
  try {
    await relays.ready(signal, { waitMs, ...(onNotice && { onNotice }) });
    return relays;
  } catch (error) {
    await relays.close();
    throw error;
  }
}

/** Options for connecting to relays for one piece of work. */
export interface RelayReach {
  readonly connection: Connection;
  /** Authenticates to relays that require it; by default with a temporary key. */
  readonly signer?: Signer | undefined;
  readonly signal: AbortSignal;
  onNotice?(message: string): void;
}

/** Returns a signer with a temporary key. */
export const passingSigner = (): Signer => createSigner(createSecretKey(), nativeCrypto);

/** Returns an `onWaiting` that reports the relays that a query waits for. */
export const noticeOfWaiting =
  (onNotice: (message: string) => void) => (relays: readonly string[]) =>
    onNotice(`waiting for an answer from ${relays.join(', ')}`);

/** Connects to relays for one piece of work. The signal passed to `work` aborts what is unfinished when it returns. */
export async function withRelays<T>(
  urls: readonly string[],
  { connection, signer = passingSigner(), signal, onNotice = () => undefined }: RelayReach,
  work: (relaySession: RelaySession) => Promise<T>,
): Promise<T> {
  const options = { onWaiting: noticeOfWaiting(onNotice), onNotice, ...connection };
  const relays = await connectRelays(parseRelayUrls(urls), options, signer, signal);
  const working = anySignal(signal);
  try {
    return await work({ relays, clock: systemClock, sha256: nativeSha256, signal: working.signal });
  } finally {
    working.end(new Error('over'));
    await relays.close();
  }
}

/** Returns the erasure code of payloads. Throws a ConfigError (`relay/stripe`) with fewer relays than shards. */
export function erasureOver(
  relays: readonly string[],
  { need, of }: ShardCounts,
): ErasureCode | undefined {
  if (of === 1) return undefined;
  if (relays.length >= of) return { data: need, parity: of - need };
  throw new ConfigError('relay/stripe', `--set stripe=${need}/${of} needs ${of} relays`, {
    hint: `${relays.length} given: add relays with --relay, or use fewer shards`,
  });
}

/**
 * Reports relays whose stated limits the largest event of a run exceeds. Throws a ConfigError (`relay/too-small`) if
 * the other relays cannot carry a complete payload.
 */
export async function assertRelaysFit(
  urls: readonly string[],
  size: EventSize,
  erasure: ErasureCode | undefined,
  {
    onNotice,
    ...how
  }: Pick<RelayInfoOptions, 'publicOnly'> & {
    readonly signal: AbortSignal;
    onNotice(message: string): void;
  },
): Promise<void> {
  const infos = await Promise.all(urls.map((url) => fetchRelayInfo(url, how)));
  const limits = infos.map((info) =>
    info.ok ? brokenLimit(size, info.value.limitation) : undefined,
  );
  const small = limits.flatMap((limit, i) =>
    limit === undefined ? [] : [`${withoutSecrets(urls[i]!)} accepts ${kilobytes(limit)}`],
  );
  if (small.length === 0) return;
  const words =
    `${small.join(', ')}, the largest event of this run is about ` +
    `${kilobytes(size.eventBytes)}`;
  // relay i gets shard i modulo the number of shards
  const { data, parity } = erasure ?? { data: 1, parity: 0 };
  const carried = new Set(
    limits.flatMap((limit, i) => (limit === undefined ? i % (data + parity) : [])),
  );
  if (carried.size >= data) {
    onNotice(`${words}: these relays get smaller events only`);
    return;
  }
  throw new ConfigError('relay/too-small', words, {
    hint:
      'send less (a smaller eventBudget; nostrain/0: a smaller --topk), or use your own relay: ' +
      'nostrain relay --max-event-bytes N',
  });
}

export const kilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(0)} kB`;
