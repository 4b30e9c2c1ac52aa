/** One HTTP GET with a size limit on the answer; JSON-RPC uses http-post.ts. */
import { ChainError } from '../base/errors.ts';
import { type Fetch, lostUnless, type PostOptions, readBody } from './http-post.ts';

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
