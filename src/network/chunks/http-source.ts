/**
 * Chunks over HTTP: downloads from servers that store them under their hash (Blossom servers, holders, static folders),
 * and uploads to Blossom servers.
 */

import type { Clock } from '../../base/async.ts';
import { toBase64, utf8 } from '../../base/bytes.ts';
import { parseJson } from '../../base/canonical-json.ts';
import { causeOf, safeLine, wordsOf } from '../../base/errors.ts';
import type { Digest } from '../../run/ids.ts';
import type { Signer } from '../event.ts';
import { withoutSecrets } from '../transport/relay-urls.ts';
import { MOST_PIECES } from './manifest.ts';
import { type Blob, type ChunkSource, readUpTo, SourceError } from './source.ts';

/** A response whose body can be read in pieces, or cancelled. */
export interface HttpAnswer {
  readonly status: number;
  header(name: string): string | undefined;
  readonly body: AsyncIterable<Uint8Array>;
  /** Ends the response without reading the rest of its body. */
  cancel(): void;
}

export interface HttpRequest {
  readonly method?: 'GET' | 'HEAD' | 'PUT';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal: AbortSignal;
}

/** Sends one request. Follows redirects where they are allowed, and refuses others. Throws the failure. */
export type AskHttp = (url: string, request: HttpRequest) => Promise<HttpAnswer>;

export interface HttpSourceOptions {
  readonly ask: AskHttp;
  readonly clock: Clock;
  readonly isNear?: boolean | undefined;
}

/** Signs authorizations of uploads. */
export interface Uploading {
  readonly signer: Signer;
  /** Content type of uploads, for servers that serve them to browsers; default none. */
  readonly contentType?: string;
}

const AUTHORIZATION_KIND = 24_242;
const LIFETIME_SECONDS = 600;
/** Content type of a holder's list of the chunks that it has. */
export const HAVE_TYPE = 'application/vnd.nostrain.have';
const LONGEST_ANSWER = 2 ** 16;
/** Headers in which Blossom servers state a refusal, under current and former names. */
const REASONS = ['x-reason', 'blossom-upload-message', 'x-upload-error'];
const LONGEST_REASON = 2 ** 12;
const BUSY = new Set([408, 425, 429, 500, 502, 503, 504]);
const LONGEST_RETRY_MS = 60_000;

/** Returns the address without query and fragment, ready to append a name. */
const baseOf = (url: string): string => url.replace(/[?#].*$/s, '').replace(/\/*$/, '');

/** Creates a source that reads `<base>/<sha256>`. */
export function createHttpSource(url: string, { ask, isNear }: HttpSourceOptions): ChunkSource {
  const base = baseOf(url);
  const name = withoutSecrets(base);
  return {
    name,
    isNear,
    async read({ sha256 }, signal) {
      const answer = await asking(name, ask(`${base}/${sha256}`, { signal }), signal);
      if (answer.status === 200) return answer.body;
      if (answer.status !== 404 && answer.status !== 410) throw await refused(name, answer);
      answer.cancel();
      return undefined;
    },
    async holds(digest, signal) {
      const answer = await asking(name, ask(`${base}/${digest}.have`, { signal }), signal);
      // other servers return the manifest for this name
      const says = answer.header('content-type') === HAVE_TYPE;
      if (answer.status === 200 && says) return readBody(answer, MOST_PIECES / 8);
      answer.cancel();
      return undefined;
    },
  };
}

/** Creates an HTTP source that also uploads missing blobs to a Blossom server (BUD-02). */
export function createBlossomSource(
  url: string,
  options: HttpSourceOptions & Uploading,
): ChunkSource & {
  /** Reports whether the server has a blob (BUD-01). */
  has(blob: Blob, signal: AbortSignal): Promise<boolean>;
  /** Asks the server to copy a blob from another server (BUD-04). */
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
    if (answer.status !== 200 && answer.status !== 201) throw await refused(name, answer);
    const { sha256 } = fieldsIn(await readBody(answer, LONGEST_ANSWER));
    if (sha256 === blob.sha256) return;
    throw new SourceError(`${name} stored another blob than ${blob.sha256}`);
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

/**
 * Returns a signed authorization to upload one blob to one server. BUD-11 requires base64url without padding, but some
 * servers decode only base64 with padding. Both are the same for ASCII without ~, > and ? in a multiple of three bytes.
 */
function authorize(
  base: string,
  sha256: Digest,
  { signer, clock, contentType }: Uploading & HttpSourceOptions,
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
      ['expiration', String(now + LIFETIME_SECONDS)],
      ['server', new URL(base).hostname],
    ],
  });
  const text = JSON.stringify(event);
  return `Nostr ${toBase64(utf8(text.padEnd(3 * Math.ceil(text.length / 3))))}`;
}

/** Returns the fields of a JSON object, or no fields if the body is anything else. */
function fieldsIn(body: Uint8Array | undefined): Readonly<Record<string, unknown>> {
  const parsed = parseJson(new TextDecoder().decode(body));
  return parsed.ok && typeof parsed.value === 'object' ? { ...parsed.value } : {};
}

async function asking<T>(name: string, answer: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await answer;
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof SourceError) throw cause;
    const words = wordsOf(causeOf(cause));
    throw new SourceError(`${name} cannot be reached (${safeLine(words)})`, { cause });
  }
}

async function refused(name: string, answer: HttpAnswer): Promise<SourceError> {
  const stated = REASONS.map((each) => answer.header(each)).find((words) => words);
  const reason = stated ?? (await reasonIn(answer));
  answer.cancel();
  const words = reason === '' ? '' : `: ${safeLine(reason.slice(0, 200))}`;
  const retryAfterMs = Number(answer.header('retry-after') ?? Number.NaN) * 1000;
  const retryMs = Number.isFinite(retryAfterMs) ? Math.min(retryAfterMs, LONGEST_RETRY_MS) : 1000;
  return new SourceError(
    `${name} answers ${answer.status}${words}`,
    BUSY.has(answer.status) ? { retryMs } : {},
  );
}

/** Returns the reason in the JSON body of a refusal, for servers that send no header; empty for any other body. */
async function reasonIn(answer: HttpAnswer): Promise<string> {
  const body = await readBody(answer, LONGEST_REASON).catch(() => undefined);
  const { error, message } = fieldsIn(body);
  return [message, error].find((words) => typeof words === 'string') ?? '';
}

/** Returns the whole body, or undefined if it is longer. */
async function readBody(answer: HttpAnswer, most: number): Promise<Uint8Array | undefined> {
  const whole = await readUpTo(answer.body, most);
  if (whole === undefined) answer.cancel();
  return whole;
}
