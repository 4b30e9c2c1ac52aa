/**
 * HTTP server for the chunks in folders: GET and HEAD of `/<sha256>` with ranges, and of `/<digest>.have`. It limits
 * bytes per second, concurrent responses, and how often one chunk is sent, so that receivers pass it on.
 */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Readable, Transform } from 'node:stream';
import type { Clock } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { HAVE_TYPE } from '../../network/chunks/http-source.ts';
import {
  type FileManifest,
  manifestDigest,
  manifestText,
  piecesOf,
} from '../../network/chunks/manifest.ts';
import { isPublicIp } from '../../network/transport/relay-urls.ts';
import type { Digest } from '../../run/ids.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { addressOf, Tally } from '../net/remote-address.ts';
import { chunkFile, pieceFileState } from './folder.ts';

export interface HolderOptions {
  readonly port: number;
  readonly host: string;
  readonly clock: Clock;
  /** Maximum bytes per second, all responses together; undefined for no limit. */
  readonly rate?: number | undefined;
  /** Maximum number of concurrent responses; further requests get 503 with `retry-after`. */
  readonly most?: number;
  /** Maximum concurrent responses to one IPv4 address or IPv6 /64; by default only public addresses have a limit. */
  readonly mostPerAddress?: number;
  /** How often one chunk is sent in a minute, never twice at once; undefined for no limit. */
  readonly servesPerWindow?: number | undefined;
  /** Answers requests for other paths. Returns false if the path is not its own. */
  beside?(request: IncomingMessage, response: ServerResponse): boolean;
}

/** Default for `most`. */
const MOST_AT_ONCE = 64;
/** Default for `mostPerAddress`: it takes four addresses to occupy a server. */
const MOST_PER_ADDRESS = 16;
/** A response to a slower reader ends, in bytes per second; clients give up on slower sources as well. */
const LEAST_RATE = 16_384;
/** Time that every response has in addition to that of its bytes at the least rate, in milliseconds. */
const GRACE_MS = 10_000;
const MOST_CONNECTIONS = 256;
/** Maximum connections of one public address. */
const CONNECTIONS_PER_ADDRESS = 32;
/** Window of `servesPerWindow`. */
const WINDOW_MS = 60_000;
/** Time limit for the headers of a request, in milliseconds. */
const HEADERS_MS = 10_000;
/** An idle connection is closed after this many milliseconds. */
const IDLE_MS = 30_000;
/** The `retry-after` of a refused request, in seconds. */
const RETRY_SECONDS = 1;
/** Shorter delays are not waited for, since timers are a millisecond or more late. */
const LEAST_WAIT_MS = 5;
/** Bytes read from a chunk file at once; larger reads take fewer turns of the event loop. */
const READ_BYTES = 2 ** 18;
/** A response named by its hash never changes. */
const FOREVER = 'public, max-age=31536000, immutable';

/** Serves a manifest and its chunks in the folder; call `add` for each chunk that arrives later. */
export async function serveFolder(
  folder: string,
  manifest: FileManifest,
  options: HolderOptions,
): Promise<HolderServer & Pick<Shelf, 'add'>> {
  const server = await HolderServer.listen(options);
  const shelf = server.shelve(folder, manifest);
  for (const piece of piecesOf(manifest)) {
    if ((await pieceFileState(folder, piece)) === 'there') shelf.add(piece.sha256);
  }
  return Object.assign(server, { add: (sha256: Digest) => shelf.add(sha256) });
}

/** The chunks of one manifest that a server serves. */
export class Shelf {
  readonly digest: Digest;
  readonly folder: string;
  readonly manifest: FileManifest;
  readonly #text: Uint8Array;
  /** Length of every chunk in the manifest, and its indices: equal chunks are one file. */
  readonly #known = new Map<Digest, { readonly bytes: number; readonly indices: number[] }>();
  /** Lengths of the chunks that are served, by hash. */
  readonly chunks = new Map<Digest, number>();
  readonly #have: Uint8Array;

  constructor(folder: string, manifest: FileManifest) {
    this.folder = folder;
    this.manifest = manifest;
    this.digest = manifestDigest(manifest, nativeSha256);
    this.#text = utf8(manifestText(manifest));
    const pieces = piecesOf(manifest);
    this.#have = new Uint8Array(Math.ceil(pieces.length / 8));
    for (const [i, { sha256, bytes }] of pieces.entries()) {
      const known = this.#known.get(sha256);
      if (known) known.indices.push(i);
      else this.#known.set(sha256, { bytes, indices: [i] });
    }
  }

  add(sha256: Digest): void {
    const known = this.#known.get(sha256);
    if (!known) return;
    this.chunks.set(sha256, known.bytes);
    for (const index of known.indices) this.#have[index >> 3]! |= 1 << (index & 7);
  }

  remove(sha256: Digest): void {
    this.chunks.delete(sha256);
    for (const index of this.#known.get(sha256)?.indices ?? [])
      this.#have[index >> 3]! &= ~(1 << (index & 7));
  }

  /** Returns the text of the manifest, or for `.have` which of its chunks are served, one bit each. */
  manifestContent(more: string): Content {
    const [bytes, type] =
      more === '.have' ? [this.#have, HAVE_TYPE] : [this.#text, 'application/json'];
    return {
      bytes: bytes.length,
      type,
      open: (from, to) => Readable.from([bytes.subarray(from, to)]),
    };
  }

  find(name: Digest): Content | undefined {
    const known = this.chunks.has(name) ? this.#known.get(name) : undefined;
    if (!known) return undefined;
    const file = chunkFile(this.folder, name);
    const { bytes } = known;
    return {
      bytes,
      sha256: name,
      open: (from, to) =>
        to === from
          ? Readable.from([])
          : createReadStream(file, { start: from, end: to - 1, highWaterMark: READ_BYTES }),
    };
  }
}

interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Length of the body. */
  readonly bytes?: number;
  body?(): Readable;
  /** Hash of the chunk in the body; undefined if the response has none. */
  readonly sha256?: Digest;
}

/** The body of a response. */
interface Content {
  readonly bytes: number;
  open(from: number, to: number): Readable;
  readonly type?: string;
  /** Hash of a chunk; undefined for content whose serving is not limited. */
  readonly sha256?: Digest;
}

/** Serves the chunks of the folders that were passed to `shelve`. */
export class HolderServer {
  readonly #options: HolderOptions;
  readonly #shelves = new Map<Digest, Shelf>();
  readonly #server: Server;
  readonly #serves = new Map<Digest, { count: number; untilMs: number }>();
  /** Chunks being sent now; tracked only if `servesPerWindow` is set. */
  readonly #going = new Set<Digest>();
  #active = 0;
  readonly #responses = new Tally();
  readonly #connections = new Tally();
  /** Time at which the bytes sent so far fit the rate. */
  #freeMs = 0;
  sentBytes = 0;

  private constructor(options: HolderOptions) {
    this.#options = options;
    this.#server = createServer({
      keepAliveTimeout: IDLE_MS,
      headersTimeout: HEADERS_MS,
      requestTimeout: HEADERS_MS,
    });
    this.#server.maxConnections = MOST_CONNECTIONS;
    this.#server.setTimeout(IDLE_MS);
    this.#server.on('connection', (socket: Socket) => {
      const address = addressOf(socket);
      this.#connections.add(address, 1);
      socket.on('close', () => this.#connections.add(address, -1));
      const isFull = this.#connections.of(address) > CONNECTIONS_PER_ADDRESS;
      if (isFull && isPublicIp(address)) socket.destroy();
    });
    this.#server.on('request', (request, response) => this.#answer(request, response));
    this.#server.on('clientError', (_, socket) => socket.destroy());
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    const { host } = this.#options;
    return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
  }

  /** Starts serving a manifest, and those of its chunks that are added to the shelf. */
  shelve(folder: string, manifest: FileManifest): Shelf {
    const shelf = new Shelf(folder, manifest);
    this.#shelves.set(shelf.digest, shelf);
    return shelf;
  }

  /** Stops serving a manifest and its chunks. */
  drop(digest: Digest): void {
    this.#shelves.delete(digest);
  }

  /** Starts a server without content. Throws a ConfigError (`checkpoint/port`) if it cannot listen. */
  static async listen(options: HolderOptions): Promise<HolderServer> {
    const holder = new HolderServer(options);
    const { port, host } = options;
    holder.#server.listen(port, host);
    await once(holder.#server, 'listening').catch((cause: NodeJS.ErrnoException) => {
      throw new ConfigError('checkpoint/port', `cannot serve at ${host}:${port} (${cause.code})`, {
        hint: 'choose another --port, or 0 for any free one',
        cause,
      });
    });
    return holder;
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    if (this.#options.beside?.(request, response)) return;
    const address = addressOf(request.socket);
    const { status, headers = {}, body, bytes = 0, sha256 } = this.#replyTo(request, address);
    response.setHeader('access-control-allow-origin', '*');
    response.writeHead(status, { 'content-length': '0', ...headers });
    if (body === undefined) {
      response.end();
      return;
    }
    this.#responses.add(address, 1);
    response.on('close', () => this.#responses.add(address, -1));
    this.#endLate(response, bytes);
    this.#send(body(), response, sha256);
  }

  /** Ends a response whose reader is slower than the least rate, or than its share of the server's own rate. */
  #endLate(response: ServerResponse, bytes: number): void {
    const { clock, rate = Number.POSITIVE_INFINITY } = this.#options;
    const least = Math.min(LEAST_RATE, rate / (2 * this.#most));
    const ended = new AbortController();
    response.on('close', () => ended.abort());
    void clock.sleep(GRACE_MS + (1000 * bytes) / least, ended.signal).then(
      () => response.destroy(),
      () => undefined,
    );
  }

  get #most(): number {
    return this.#options.most ?? MOST_AT_ONCE;
  }

  #isFull(address: string): boolean {
    const { mostPerAddress = isPublicIp(address) ? MOST_PER_ADDRESS : this.#most } = this.#options;
    return this.#active >= this.#most || this.#responses.of(address) >= mostPerAddress;
  }

  #replyTo(
    { method, url = '', headers: { range: header } }: IncomingMessage,
    address: string,
  ): Reply {
    if (method !== 'GET' && method !== 'HEAD')
      return { status: 405, headers: { allow: 'GET, HEAD' } };
    const content = this.#find(url);
    if (!content) return { status: 404 };
    const { bytes, sha256, type = 'application/octet-stream' } = content;
    const range = rangeOf(header, bytes);
    if (!range) return { status: 416, headers: { 'content-range': `bytes */${bytes}` } };
    const { from, to, isPart } = range;
    const headers = {
      'content-type': type,
      'content-length': String(to - from),
      'accept-ranges': 'bytes',
      ...(sha256 && { etag: `"${sha256}"`, 'cache-control': FOREVER }),
      ...(isPart && { 'content-range': `bytes ${from}-${to - 1}/${bytes}` }),
    };
    const status = isPart ? 206 : 200;
    if (method === 'HEAD') return { status, headers };
    const later = { 'retry-after': String(RETRY_SECONDS) };
    if (this.#isFull(address)) return { status: 503, headers: later };
    if (sha256 !== undefined && !this.#mayServe(sha256)) return { status: 429, headers: later };
    return {
      status,
      headers,
      bytes: to - from,
      body: () => content.open(from, to),
      ...(sha256 && { sha256 }),
    };
  }

  /** Returns the content at a URL. Only hashes are names, so no URL reaches another file. */
  #find(url: string): Content | undefined {
    const [, name = '', more = ''] = /^\/([0-9a-f]{64})(\.\w{1,8})?(?:\?.*)?$/.exec(url) ?? [];
    const named = this.#shelves.get(name);
    if (named) return named.manifestContent(more);
    for (const shelf of this.#shelves.values()) {
      const content = shelf.find(name);
      if (content) return content;
    }
    return undefined;
  }

  #mayServe(sha256: Digest): boolean {
    const { servesPerWindow, clock } = this.#options;
    if (servesPerWindow === undefined) return true;
    if (this.#going.has(sha256)) return false;
    const now = clock.now();
    const known = this.#serves.get(sha256);
    if (known && now < known.untilMs) return known.count < servesPerWindow && ++known.count > 0;
    this.#serves.set(sha256, { count: 1, untilMs: now + WINDOW_MS });
    return true;
  }

  #send(body: Readable, response: ServerResponse, sha256: Digest | undefined): void {
    this.#active++;
    if (sha256 !== undefined) this.#going.add(sha256);
    const { rate } = this.#options;
    const throttle = rate === undefined ? undefined : this.#throttle(rate);
    response.on('close', () => {
      this.#active--;
      if (sha256 !== undefined) this.#going.delete(sha256);
      body.destroy();
      throttle?.destroy();
    });
    const fail = () => response.destroy();
    const count = (piece: Uint8Array) => {
      this.sentBytes += piece.length;
    };
    body.on('error', fail).on('data', count);
    throttle?.on('error', fail);
    if (throttle) body.pipe(throttle).pipe(response);
    else body.pipe(response);
  }

  /** Returns a stream that delays its output to `rate` bytes per second, shared by all responses. */
  #throttle(rate: number): Transform {
    const { clock } = this.#options;
    return new Transform({
      transform: (piece: Uint8Array, _, done) => {
        const now = clock.now();
        this.#freeMs = Math.max(now, this.#freeMs) + (1000 * piece.length) / rate;
        const wait = this.#freeMs - now;
        // short waits add up until they are worth a timer
        if (wait < LEAST_WAIT_MS) done(null, piece);
        else void clock.sleep(wait).then(() => done(null, piece));
      },
    });
  }
}

/**
 * Parses a `range` header (RFC 9110) for content of `bytes` bytes. Returns all of it if the header is absent or lists
 * several ranges, and undefined if the range cannot be satisfied.
 */
function rangeOf(
  header: string | undefined,
  bytes: number,
): { readonly from: number; readonly to: number; readonly isPart: boolean } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '') ?? [];
  if (first === '' && last === '') return { from: 0, to: bytes, isPart: false };
  if (first === '') return { from: Math.max(0, bytes - Number(last)), to: bytes, isPart: true };
  const from = Number(first);
  const to = last === '' ? bytes : Math.min(bytes, Number(last) + 1);
  return from < bytes && from < to ? { from, to, isPart: true } : undefined;
}
