/**
 * Chunks over HTTP: from any server that has them under their hash (a Blossom server, a holder, a folder on the
 * web), and to Blossom servers.
 */

import type { Clock } from '../../base/async.ts';
import { isHex32, toBase64, utf8 } from '../../base/bytes.ts';
import { parseJson } from '../../base/canonical-json.ts';
import { safeLine } from '../../base/errors.ts';
import type { Digest } from '../../run/ids.ts';
import type { Signer } from '../event.ts';
import { withoutSecrets } from '../transport/relay-urls.ts';
import { MOST_PIECES } from './manifest.ts';
import { type Blob, type ChunkSource, readUpTo, SourceError } from './source.ts';

/** An answer whose body is read in pieces, or given up. */
export interface HttpAnswer {
  readonly status: number;
  header(name: string): string | undefined;
  readonly body: AsyncIterable<Uint8Array>;
  /** Ends it without the rest of its body. */
  cancel(): void;
}

export interface HttpRequest {
  readonly method?: 'GET' | 'HEAD' | 'PUT';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal: AbortSignal;
}

/** One request; redirects are followed where they may be, and refused elsewhere. Throws what went wrong. */
export type AskHttp = (url: string, request: HttpRequest) => Promise<HttpAnswer>;

export interface HttpSourceOptions {
  readonly ask: AskHttp;
  readonly clock: Clock;
  readonly isNear?: boolean | undefined;
}

/** Signs authorizations of uploads. */
export interface Uploading {
  readonly signer: Signer;
  /** Longest upload of one blob. */
  readonly lifetimeSeconds?: number;
  /** Of all that is stored, for whoever serves it to browsers; default no particular one. */
  readonly contentType?: string;
}

const AUTHORIZATION_KIND = 24_242;
const LIFETIME_SECONDS = 600;
/** Of what a holder says it has. */
export const HAVE_TYPE = 'application/vnd.nostrain.have';
const LONGEST_ANSWER = 2 ** 16;
/** Blossom's words of refusal, by the names they had and have. */
const REASONS = ['x-reason', 'blossom-upload-message', 'x-upload-error'];
const BUSY = new Set([408, 425, 429, 500, 502, 503, 504]);
const LONGEST_RETRY_MS = 60_000;

/** The address without what may follow it, ready for a name behind it. */
const baseOf = (url: string): string => url.replace(/[?#].*$/s, '').replace(/\/*$/, '');

/** Reads from whoever serves `<base>/<sha256>`. */
export function createHttpSource(url: string, { ask, isNear }: HttpSourceOptions): ChunkSource {
  const base = baseOf(url);
  const name = withoutSecrets(base);
  return {
    name,
    isNear,
    async read({ sha256 }, signal) {
      const answer = await asking(name, ask(`${base}/${sha256}`, { signal }), signal);
      if (answer.status === 200) return answer.body;
      answer.cancel();
      if (answer.status === 404 || answer.status === 410) return undefined;
      throw refused(name, answer);
    },
    async holds(digest, signal) {
      const answer = await asking(name, ask(`${base}/${digest}.have`, { signal }), signal);
      // others give the manifest for this name
      const says = answer.header('content-type') === HAVE_TYPE;
      if (answer.status === 200 && says) return readBody(answer, MOST_PIECES / 8);
      answer.cancel();
      return undefined;
    },
  };
}

/** The same, and uploads to a Blossom server (BUD-02) what it has not got. */
export function createBlossomSource(
  url: string,
  options: HttpSourceOptions & Uploading,
): ChunkSource & {
  /** Whether it has a blob (BUD-01). */
  has(blob: Blob, signal: AbortSignal): Promise<boolean>;
  /** Asks it to fetch a blob from another server (BUD-04). */
  mirror(blob: Blob, from: string, signal: AbortSignal): Promise<void>;
} {
  const { ask } = options;
  const base = baseOf(url);
  const source = createHttpSource(url, options);
  const { name } = source;
  const has = async ({ sha256 }: Blob, signal: AbortSignal) => {
    const request = ask(`${base}/${sha256}`, { method: 'HEAD', signal });
    const answer = await asking(name, request, signal);
    answer.cancel();
    return answer.status === 200;
  };
  const put = async (
    path: string,
    blob: Blob,
    type: string,
    body: Uint8Array,
    signal: AbortSignal,
  ) => {
    const headers = {
      'content-type': type,
      'content-length': String(body.length),
      authorization: authorize(base, blob.sha256, options),
    };
    const request = ask(`${base}/${path}`, { method: 'PUT', headers, body, signal });
    const answer = await asking(name, request, signal);
    if (answer.status !== 200 && answer.status !== 201) {
      answer.cancel();
      throw refused(name, answer);
    }
    const taken = hashIn(await readBody(answer, LONGEST_ANSWER));
    if (taken === blob.sha256) return;
    throw new SourceError(`${name} says that it took another blob than ${blob.sha256}`);
  };
  return {
    ...source,
    has,
    async store(blob, bytes, signal) {
      if (await has(blob, signal)) return;
      await put('upload', blob, options.contentType ?? 'application/octet-stream', bytes, signal);
    },
    async mirror(blob, from, signal) {
      if (await has(blob, signal)) return;
      const body = utf8(JSON.stringify({ url: `${baseOf(from)}/${blob.sha256}` }));
      await put('mirror', blob, 'application/json', body, signal);
    },
  };
}

/** Signed leave to upload one blob to one server, for ten minutes (BUD-11): of no use for anything else. */
function authorize(
  base: string,
  sha256: Digest,
  { signer, clock, contentType, lifetimeSeconds = LIFETIME_SECONDS }: Uploading & HttpSourceOptions,
): string {
  const now = Math.floor(clock.now() / 1000);
  const event = signer.sign({
    kind: AUTHORIZATION_KIND,
    created_at: now,
    content:
      contentType === undefined ? 'Upload a chunk of a checkpoint' : 'Upload a file of a site',
    tags: [
      ['t', 'upload'],
      ['x', sha256],
      ['expiration', String(now + lifetimeSeconds)],
      ['server', new URL(base).hostname],
    ],
  });
  return `Nostr ${toBase64(utf8(JSON.stringify(event)))}`;
}

function hashIn(body: Uint8Array | undefined): Digest | undefined {
  const parsed = parseJson(new TextDecoder().decode(body));
  if (!parsed.ok || typeof parsed.value !== 'object' || parsed.value === null) return undefined;
  const { sha256 } = parsed.value as { readonly sha256?: unknown };
  return typeof sha256 === 'string' && isHex32(sha256) ? sha256 : undefined;
}

async function asking<T>(name: string, answer: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await answer;
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof SourceError) throw cause;
    const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
    const words = inner instanceof Error ? inner.message : String(inner);
    throw new SourceError(`${name} cannot be reached (${safeLine(words)})`, { cause });
  }
}

function refused(name: string, answer: HttpAnswer): SourceError {
  const reason = REASONS.map((each) => answer.header(each)).find((words) => words) ?? '';
  const words = reason === '' ? '' : `: ${safeLine(reason.slice(0, 200))}`;
  const retryAfterMs = Number(answer.header('retry-after') ?? Number.NaN) * 1000;
  const retryMs = Number.isFinite(retryAfterMs) ? Math.min(retryAfterMs, LONGEST_RETRY_MS) : 1000;
  return new SourceError(
    `${name} answers ${answer.status}${words}`,
    BUSY.has(answer.status) ? { retryMs } : {},
  );
}

/** Returns the whole body, or undefined if it is longer. */
async function readBody(answer: HttpAnswer, most: number): Promise<Uint8Array | undefined> {
  const whole = await readUpTo(answer.body, most);
  if (whole === undefined) answer.cancel();
  return whole;
}
