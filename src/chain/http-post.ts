/** One HTTP POST of JSON with a bounded answer: the only way this folder reaches a network. */
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
    const headers = { 'content-type': 'application/json' };
    const init: RequestInit = { method: 'POST', headers, body, signal, redirect: 'error' };
    const response = await fetch(url, init).catch((cause: unknown) => {
      signal.throwIfAborted();
      throw new ChainError('chain/unreachable', 'no answer', { cause });
    });
    const text = await readBody(response, maxBytes);
    // JSON-RPC errors come with any status; what is no JSON says its status instead
    if (!response.ok && !text.startsWith('{')) {
      throw new ChainError('chain/unreachable', `HTTP status ${response.status}`);
    }
    return text;
  };

async function readBody(response: Response, maxBytes: number): Promise<string> {
  if (response.body === null) return '';
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  // leaving the loop early cancels the rest
  for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
    bytes += part.length;
    if (bytes > maxBytes) throw new ChainError('chain/answer', `an answer over ${maxBytes} bytes`);
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}
