/**
 * Opens the sources of chunks that a person, a spec or a directory names, relays, HTTP addresses and folders, and
 * finds the manifest of a file at them. Addresses that strangers name must be public, after every look-up and every
 * redirect.
 */
import { stat } from 'node:fs/promises';
import { type IncomingMessage, Agent as PlainAgent, request as requestPlain } from 'node:http';
import { request as requestSecure, Agent as SecureAgent } from 'node:https';
import { anySignal, firstOf, onAbort, systemClock } from '../../base/async.ts';
import { isHex32, toHex } from '../../base/bytes.ts';
import { CheckpointError, ConfigError, safeLine } from '../../base/errors.ts';
import { createRelaySource } from '../../network/attachments/relay-source.ts';
import type { AskHttp, HttpAnswer, HttpRequest } from '../../network/chunks/http-source.ts';
import { createHttpSource } from '../../network/chunks/http-source.ts';
import { type FileManifest, MOST_MANIFEST_BYTES } from '../../network/chunks/manifest.ts';
import { type ChunkSource, readUpTo, SourceError } from '../../network/chunks/source.ts';
import { createSigner } from '../../network/event.ts';
import {
  hintProblem,
  isPublicIp,
  isRelayUrl,
  withoutSecrets,
} from '../../network/transport/relay-urls.ts';
import type { Digest } from '../../run/ids.ts';
import { createSecretKey } from '../files/keys.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { type Connection, connectRelays, publicLookup } from '../net/relays.ts';
import { createFolderSource, orBadManifest, readManifest, readManifestFile } from './folder.ts';

export interface SourcesOptions {
  readonly connection: Connection;
  readonly signal: AbortSignal;
  /** Private and loopback addresses may be asked whoever named them. */
  readonly allowPrivate?: boolean | undefined;
}

/** Where somebody says that chunks are. */
export interface NamedSource {
  /** An address (`https://…`, `wss://…`) or a folder. */
  readonly text: string;
  readonly isNear?: boolean | undefined;
  /** A person at this machine named it; else a stranger did, who names public addresses only. */
  readonly isTrusted: boolean;
}

export interface OpenSources {
  readonly sources: readonly ChunkSource[];
  /** Sources named by strangers that are not asked, with the reason. */
  readonly refused: readonly { readonly name: string; readonly reason: string }[];
  close(): Promise<void>;
}

/** Relays are asked for the chunk events of a whole file where its manifest is known, and for manifests. */
export async function openSources(
  named: readonly NamedSource[],
  manifest: FileManifest | undefined,
  options: SourcesOptions,
): Promise<OpenSources> {
  const sources: ChunkSource[] = [];
  const refused: { name: string; reason: string }[] = [];
  const relays: NamedSource[] = [];
  for (const each of named) {
    const problem = each.isTrusted || options.allowPrivate ? undefined : strangerProblem(each.text);
    if (problem !== undefined) refused.push({ name: withoutSecrets(each.text), reason: problem });
    else if (isRelayUrl(each.text)) relays.push(each);
    else sources.push(openSource(each, options));
  }
  const hasChunkEvents = manifest === undefined || manifest.root !== null;
  const opened: OpenSources[] = [];
  for (const isTrusted of [true, false]) {
    const some = relays.filter((each) => each.isTrusted === isTrusted);
    if (hasChunkEvents && some.length > 0) opened.push(await openRelays(some, manifest, options));
  }
  return {
    sources: [...sources, ...opened.flatMap((each) => each.sources)],
    refused: [...refused, ...opened.flatMap((each) => each.refused)],
    close: async () => void (await Promise.all(opened.map((each) => each.close()))),
  };
}

/** A file at named sources. */
export interface OpenFile extends Pick<OpenSources, 'sources' | 'close'> {
  readonly manifest: FileManifest;
}

/**
 * Finds the manifest of a file at the named sources, if it is not known, and opens them for its chunks. Reports
 * which are not asked. Throws as `findManifest` does.
 */
export async function openFile(
  what: string | FileManifest,
  named: readonly NamedSource[],
  options: SourcesOptions & { onNotice(message: string): void },
): Promise<OpenFile> {
  const tell = (refused: OpenSources['refused']) => {
    for (const { name, reason } of refused) options.onNotice(`${name} is not asked: ${reason}`);
  };
  let found: LocatedManifest;
  if (typeof what === 'string') {
    const first = await openSources(named, undefined, options);
    try {
      found = await findManifest(what, first.sources, options.signal);
    } catch (error) {
      tell(first.refused);
      throw error;
    } finally {
      await first.close();
    }
  } else found = { manifest: what, beside: undefined };
  const { manifest, beside } = found;
  const all = beside === undefined ? named : [...named, { text: beside, isTrusted: true }];
  const { sources, refused, close } = await openSources(all, manifest, options);
  tell(refused);
  return { manifest, sources, close };
}

/** Relays that are trusted alike: one source each, that knows the others. */
async function openRelays(
  named: readonly NamedSource[],
  manifest: FileManifest | undefined,
  { connection, signal, allowPrivate = false }: SourcesOptions,
): Promise<OpenSources> {
  const publicOnly = !named[0]!.isTrusted && !allowPrivate;
  const urls = named.map(({ text }) => text);
  const signer = createSigner(createSecretKey(), nativeCrypto);
  const set = await connectRelays(urls, { ...connection, publicOnly }, signer, signal).catch(
    (error: Error) => error,
  );
  if (set instanceof Error) {
    signal.throwIfAborted();
    const refused = named.map(({ text }) => ({ name: withoutSecrets(text), reason: set.message }));
    return { sources: [], refused, close: async () => undefined };
  }
  const payload = manifest?.root ? { root: manifest.root, bytes: manifest.bytes } : undefined;
  const shared = { relays: set, clock: systemClock, sha256: nativeSha256, payload };
  const isNear = (relay: string) =>
    named.find(({ text }) => withoutSecrets(text) === relay)?.isNear;
  return {
    sources: set.relays.map((relay) => ({
      ...createRelaySource({ ...shared, name: withoutSecrets(relay), relay }),
      isNear: isNear(relay),
    })),
    refused: [],
    close: () => set.close(),
  };
}

function openSource(
  { text, isNear, isTrusted }: NamedSource,
  { allowPrivate }: SourcesOptions,
): ChunkSource {
  if (!/^https?:\/\//i.test(text)) return createFolderSource(text);
  if (!URL.canParse(text)) {
    throw new ConfigError('checkpoint/place-name', `${safeLine(text)} is no address`, {
      hint: 'say https://host/path, wss://relay, or a folder',
    });
  }
  return createHttpSource(text, {
    ask: createAskHttp({ isTrusted, allowPrivate }),
    clock: systemClock,
    isNear,
  });
}

/** Why what a stranger names is not asked, by its form; where its name leads is judged when it is looked up. */
function strangerProblem(text: string): string | undefined {
  if (!/^(https?|wss?):\/\//i.test(text)) return 'a folder that a stranger names';
  return hintProblem(text.replace(/^http/i, 'ws').replace(/\/+$/, ''))?.replace('relay', 'source');
}

export interface AskOptions {
  /** The address came from a person at this machine, not from an event, a spec or a directory. */
  readonly isTrusted: boolean;
  /** Private and loopback addresses are fine wherever they come from. */
  readonly allowPrivate?: boolean | undefined;
  /** How long a connection may be silent. */
  readonly silentMs?: number;
}

const MOST_REDIRECTS = 3;
const SILENT_MS = 30_000;
const lookup = publicLookup();
const pool = { keepAlive: true, maxSockets: 64 };
const agentsFor = () => ({ 'http:': new PlainAgent(pool), 'https:': new SecureAgent(pool) });
const agents = agentsFor();
/** Their connections lead to public hosts alone: each was made after a look-up that saw to that. */
const publicAgents = agentsFor();

/** Asks over HTTP and HTTPS. Throws a SourceError about an address that may not be asked. */
export const createAskHttp =
  ({ isTrusted, allowPrivate = false, silentMs = SILENT_MS }: AskOptions): AskHttp =>
  async (address, request) => {
    let url = address;
    for (let hops = 0; hops <= MOST_REDIRECTS; hops++) {
      const isOpen = allowPrivate || (isTrusted && hops === 0);
      const answer = await ask(assertAskable(url, isOpen), request, { isOpen, silentMs });
      const next = [301, 302, 303, 307, 308].includes(answer.status) && answer.header('location');
      if (!next) return answer;
      answer.cancel();
      if (request.method === 'PUT')
        throw new SourceError(`${withoutSecrets(url)} sends uploads elsewhere`);
      url = new URL(next, url).href;
    }
    throw new SourceError(`${withoutSecrets(address)} redirects for ever`);
  };

/** The address where it may be asked: by its form here, and by where its name leads when it is looked up. */
function assertAskable(text: string, isOpen: boolean): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new SourceError(`${withoutSecrets(text)} is no HTTP address`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isIp = host.includes(':') || /^[\d.]+$/.test(host);
  if (!isOpen && isIp && !isPublicIp(host)) {
    throw new SourceError(`${withoutSecrets(text)} is a private address that a stranger named`);
  }
  return url;
}

function ask(
  url: URL,
  { method = 'GET', headers = {}, body, signal }: HttpRequest,
  { isOpen, silentMs }: { readonly isOpen: boolean; readonly silentMs: number },
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const send = url.protocol === 'https:' ? requestSecure : requestPlain;
    const sent = send(url, {
      method,
      headers: { 'accept-encoding': 'identity', ...headers },
      // a connection of another pool may lead to what may not be asked here
      agent: (isOpen ? agents : publicAgents)[url.protocol as keyof typeof agents],
      ...(isOpen ? {} : { lookup }),
    });
    const release = onAbort(signal, () => sent.destroy(signal.reason as Error));
    sent.setTimeout(silentMs, () => sent.destroy(new Error(`silent for ${silentMs / 1000} s`)));
    sent.on('close', release);
    sent.on('error', reject);
    sent.on('response', (message) => resolve(answerOf(message)));
    sent.end(body);
  });
}

function answerOf(message: IncomingMessage): HttpAnswer {
  // who cancels does not hear of what is lost then
  message.on('error', () => undefined);
  return {
    status: message.statusCode ?? 0,
    header: (name) => {
      const value = message.headers[name];
      return Array.isArray(value) ? value[0] : value;
    },
    body: message as AsyncIterable<Uint8Array>,
    cancel: () => void message.destroy(),
  };
}

export interface LocatedManifest {
  readonly manifest: FileManifest;
  /** Where it was, and where its chunks may be too; undefined of a digest. */
  readonly beside: string | undefined;
}

/** Throws a ConfigError or a CheckpointError that says what is not there or not right. */
export async function findManifest(
  what: string,
  sources: readonly ChunkSource[],
  signal: AbortSignal,
): Promise<LocatedManifest> {
  if (isHex32(what)) return { manifest: await ofDigest(what, sources, signal), beside: undefined };
  if (/^https?:\/\//i.test(what)) return ofAddress(what, signal);
  const found = await stat(what).catch(() => undefined);
  if (found?.isDirectory()) return { manifest: await readManifest(what), beside: what };
  if (found) return { manifest: await readManifestFile(what), beside: undefined };
  throw new ConfigError('checkpoint/what', `${safeLine(what)} is no manifest, address or digest`, {
    hint: 'name a manifest.json, its address, or the digest that `checkpoint pack` printed',
  });
}

/** How long a source may take before the next is asked too. */
const NEXT_MS = 1000;
/** After that it is given up where it was slower than so many bytes a second. */
const LATE_MS = 4000;
const LEAST_RATE = 16_384;
/** Relays are given up after that: they say nothing while they look. */
const MOST_MS = 30_000;

/** Asks the sources in turn, the next one as soon as one fails or takes long. Only bytes with that hash are parsed. */
async function ofDigest(
  digest: Digest,
  sources: readonly ChunkSource[],
  signal: AbortSignal,
): Promise<FileManifest> {
  const over = new AbortController();
  const both = anySignal(signal, over.signal);
  let turn: Promise<unknown> = Promise.resolve();
  const tries = sources.map((source) => {
    const tried = turn.then(() => trySource(source, digest, both.signal));
    const pause = turn.then(() => systemClock.sleep(NEXT_MS, both.signal));
    turn = firstOf([tried, pause].map((each) => each.then(ignore, ignore)));
    return tried;
  });
  const failures: string[] = [];
  const found = await Promise.any(tries).catch(({ errors }: AggregateError) => {
    failures.push(...errors.map(({ message }: Error) => message));
  });
  over.abort(new Error('another source was faster'));
  both.release();
  if (found) return found;
  signal.throwIfAborted();
  throw new CheckpointError(
    'checkpoint/no-manifest',
    `no source has the manifest ${digest}: ${failures.join('; ') || 'none was named'}`,
    { hint: 'name sources that have it with --from; relays have what `checkpoint push` sent' },
  );
}

const ignore = (): void => undefined;

/** The manifest from one source, which trickles no longer than it may. */
async function trySource(
  source: ChunkSource,
  digest: Digest,
  signal: AbortSignal,
): Promise<FileManifest> {
  const late = new AbortController();
  const both = anySignal(signal, late.signal);
  const startedMs = systemClock.now();
  let came = 0;
  const timer = setInterval(() => {
    const ms = systemClock.now() - startedMs;
    const isLate = source.findManifest
      ? ms > MOST_MS
      : ms > LATE_MS && came * 1000 < LEAST_RATE * ms;
    if (isLate) late.abort(new Error(`${source.name} is too slow`));
  }, NEXT_MS);
  try {
    const bytes = await bytesAt(source, digest, both.signal, (length) => {
      came = length;
    });
    if (bytes === 'absent') throw new Error(`${source.name} has not got it`);
    if (bytes && toHex(nativeSha256(bytes)) === digest) return parse(source.name, bytes);
    throw new Error(`${source.name} gives other bytes`);
  } finally {
    clearInterval(timer);
    both.release();
  }
}

async function bytesAt(
  source: ChunkSource,
  digest: Digest,
  signal: AbortSignal,
  onBytes: (length: number) => void,
) {
  if (source.findManifest) return source.findManifest(digest, signal);
  const blob = { sha256: digest, bytes: MOST_MANIFEST_BYTES, offset: undefined };
  const body = await source.read(blob, signal);
  return body === undefined ? 'absent' : readUpTo(body, MOST_MANIFEST_BYTES, onBytes);
}

/** A hash in the address (`…/<sha256>` or `#sha256=<hash>`) is held to. */
async function ofAddress(what: string, signal: AbortSignal): Promise<LocatedManifest> {
  const url = new URL(what);
  const pin =
    /^#sha256=([0-9a-f]{64})$/.exec(url.hash)?.[1] ?? /\/([0-9a-f]{64})$/.exec(url.pathname)?.[1];
  url.hash = '';
  const answer = await createAskHttp({ isTrusted: true })(url.href, { signal });
  if (answer.status !== 200) {
    answer.cancel();
    throw new CheckpointError('checkpoint/no-manifest', `${url.href} answers ${answer.status}`, {
      hint: 'name the address of a manifest.json, or of a manifest by its SHA-256',
    });
  }
  const bytes = await readUpTo(answer.body, MOST_MANIFEST_BYTES);
  if (pin !== undefined && (!bytes || toHex(nativeSha256(bytes)) !== pin)) {
    throw new CheckpointError('checkpoint/other', `${url.href} is not the manifest ${pin}`, {
      hint: 'ask whoever gave you the address; what is there may have changed',
    });
  }
  return { manifest: parse(url.href, bytes), beside: new URL('.', url).href };
}

const parse = (where: string, bytes: Uint8Array | undefined): FileManifest =>
  orBadManifest(where, new TextDecoder().decode(bytes));
