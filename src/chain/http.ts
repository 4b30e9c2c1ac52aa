/** One HTTP request with a size limit on the answer: a GET, or a POST of JSON, through which all JSON-RPC calls go. */
import { ChainError } from '../base/errors.ts';

export interface PostOptions {
  readonly signal: AbortSignal;
  /** Longest answer that is read. */
  readonly maxBytes: number;
}

/** The body of the answer; throws a `ChainError` when there is none. */
export type Post = (url: string, body: string, options: PostOptions) => Promise<string>;

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Posts with the platform's `fetch`. Redirects are errors: an endpoint is who was named. */
export const createPost =
  (fetch: Fetch): Post =>
  async (url, body, { signal, maxBytes }) => {
    const lost = lostUnless(signal);
    const headers = { 'content-type': 'application/json' };
    const init: RequestInit = { method: 'POST', headers, body, signal, redirect: 'error' };
    const response = await fetch(url, init).catch(lost);
    const text = await readBody(response, maxBytes).catch(lost);
    // JSON-RPC errors come with any status; what is no JSON says its status instead
    if (!response.ok && !text.startsWith('{')) {
      throw new ChainError('chain/unreachable', `HTTP status ${response.status}`);
    }
    return text;
  };

/** What goes wrong as a `ChainError`, unless it was stopped. */
const lostUnless =
  (signal: AbortSignal) =>
  (cause: unknown): never => {
    signal.throwIfAborted();
    if (cause instanceof ChainError) throw cause;
    throw new ChainError('chain/unreachable', 'no answer', { cause });
  };

/** The text of an answer, as long as it is not too long. */
async function readBody(response: Response, maxBytes: number): Promise<string> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for (let part = await reader?.read(); part?.value !== undefined; part = await reader!.read()) {
    bytes += part.value.length;
    if (bytes > maxBytes) {
      await reader!.cancel();
      throw new ChainError('chain/answer', `an answer over ${maxBytes} bytes`);
    }
    text += decoder.decode(part.value, { stream: true });
  }
  return text + decoder.decode();
}

/** The body of a good answer; throws a `ChainError` when there is none. */
export type Get = (url: string, options: PostOptions) => Promise<string>;

/** Asks with the platform's `fetch`. Redirects are errors: an endpoint is who was named. */
export const createGet =
  (fetch: Fetch): Get =>
  async (url, { signal, maxBytes }) => {
    const lost = lostUnless(signal);
    const response = await fetch(url, { signal, redirect: 'error' }).catch(lost);
    const text = await readBody(response, maxBytes).catch(lost);
    if (response.ok) return text;
    throw new ChainError('chain/unreachable', `HTTP status ${response.status}`);
  };
