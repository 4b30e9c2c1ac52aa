/** Endpoints of chains: HTTP with bounded responses, JSON-RPC 2.0, and answers on which k of n endpoints agree. */

import type { Clock } from '../base/async.ts';
import { jsonIn } from '../base/canonical-json.ts';
import { ChainError, NostrainError } from '../base/errors.ts';

export interface PostOptions {
  readonly signal: AbortSignal;
  readonly maxBytes: number;
}

/** Returns the response body. Throws a ChainError if the request fails. */
export type Post = (url: string, body: string, options: PostOptions) => Promise<string>;
export type Get = (url: string, options: PostOptions) => Promise<string>;

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/**
 * Posts with the platform's `fetch`. JSON-RPC errors arrive with any status, so a JSON body is returned whatever the
 * status.
 */
export const createPost =
  (fetch: Fetch): Post =>
  (url, body, options) => {
    const headers = { 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body };
    return ask(fetch, url, init, options, (text) => text.startsWith('{'));
  };

/** Gets with the platform's `fetch`. */
export const createGet =
  (fetch: Fetch): Get =>
  (url, options) =>
    ask(fetch, url, {}, options, () => false);

/**
 * Redirects are errors: only the named endpoint counts. `isAnswer` decides whether the body of a failed status is an
 * answer.
 */
async function ask(
  fetch: Fetch,
  url: string,
  init: RequestInit,
  { signal, maxBytes }: PostOptions,
  isAnswer: (text: string) => boolean,
): Promise<string> {
  const lost = lostUnless(signal);
  const response = await fetch(url, { ...init, signal, redirect: 'error' }).catch(lost);
  const text = await readBody(response, maxBytes).catch(lost);
  if (response.ok || isAnswer(text)) return text;
  throw new ChainError('chain/unreachable', `HTTP status ${response.status}`);
}

/** Converts any failure into a ChainError, unless the signal was aborted. */
const lostUnless =
  (signal: AbortSignal) =>
  (cause: unknown): never => {
    signal.throwIfAborted();
    if (cause instanceof ChainError) throw cause;
    throw new ChainError('chain/unreachable', 'no answer', { cause });
  };

async function readBody(response: Response, maxBytes: number): Promise<string> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for (let part = await reader?.read(); part?.value !== undefined; part = await reader!.read()) {
    bytes += part.value.length;
    if (bytes > maxBytes) {
      await reader!.cancel();
      throw new ChainError('chain/answer', `the answer is larger than ${maxBytes} bytes`);
    }
    text += decoder.decode(part.value, { stream: true });
  }
  return text + decoder.decode();
}

/** A JSON-RPC endpoint of a chain. */
export interface Endpoint {
  /** Host and port, without the path, which may contain a secret. */
  readonly name: string;
  /**
   * Returns the result as unchecked JSON. Throws a ChainError: `chain/unreachable`, `chain/answer` or `chain/refused`.
   */
  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
}

export interface EndpointOptions {
  readonly post: Post;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly maxBytes?: number;
}

const MAX_BYTES = 32 * 1024 * 1024;

/** Returns an endpoint whose calls fail after `timeoutMs`. */
export function createEndpoint(url: string, options: EndpointOptions): Endpoint {
  const { post, maxBytes = MAX_BYTES } = options;
  const name = nameOf(url);
  let calls = 0;
  return {
    name,
    async call(method, params, signal) {
      const id = ++calls;
      const body = JSON.stringify({ jsonrpc: '2.0', id, method, params });
      try {
        const text = await inTime(options, signal, (stop) =>
          post(url, body, { signal: stop, maxBytes }),
        );
        return resultOf(text, id);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof ChainError)) throw error;
        throw withContext(`${name}: ${method}`, error);
      }
    },
  };
}

const withContext = (who: string, error: ChainError): ChainError =>
  new ChainError(error.code, `${who}: ${error.message}`, { cause: error });

/** Returns host and port of a URL; API keys are usually in the path. */
export function nameOf(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

export async function inTime<T>(
  { clock, timeoutMs }: Pick<EndpointOptions, 'clock' | 'timeoutMs'>,
  signal: AbortSignal,
  work: (stop: AbortSignal) => Promise<T>,
): Promise<T> {
  const ended = new AbortController();
  const both = AbortSignal.any([signal, ended.signal]);
  const late = clock.sleep(timeoutMs, both).then(() => {
    throw new ChainError('chain/unreachable', `no answer in ${timeoutMs / 1000} s`);
  });
  // the timer is also aborted when the work ends first, and then no one handles its rejection
  late.catch(() => {});
  try {
    return await Promise.race([work(both), late]);
  } finally {
    ended.abort();
  }
}

function resultOf(text: string, id: number): unknown {
  const answer = jsonIn(text);
  const response = answer as
    | { id?: unknown; result?: unknown; error?: { message?: unknown } }
    | null
    | undefined;
  if (typeof response?.error === 'object' && response.error !== null) {
    throw new ChainError('chain/refused', clip(String(response.error.message)));
  }
  if (response?.result === undefined || response.id !== id) {
    throw new ChainError('chain/answer', 'the answer is not a JSON-RPC result');
  }
  return response.result;
}

const clip = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 300);

export interface Endpoints {
  readonly all: readonly Endpoint[];
  readonly need: number;
}

/** Throws `chain/endpoints` if fewer endpoints are given than must agree. */
export function assertEnough({ all, need }: Endpoints): void {
  if (Number.isInteger(need) && need >= 1 && all.length >= need) return;
  throw new ChainError('chain/endpoints', `${need} endpoints must agree, ${all.length} are given`, {
    hint: 'name as many endpoints with --rpc as --agree requires',
  });
}

export type EndpointAnswer<T> =
  | { readonly endpoint: Endpoint; readonly value: T }
  | { readonly endpoint: Endpoint; readonly problem: string; readonly code: string };

/** Returns the answer or failure of each endpoint. Errors other than a NostrainError are thrown. */
export async function askAll<T>(
  { all }: Endpoints,
  ask: (endpoint: Endpoint) => Promise<T>,
): Promise<readonly EndpointAnswer<T>[]> {
  return Promise.all(
    all.map(async (endpoint) => {
      try {
        return { endpoint, value: await ask(endpoint) };
      } catch (error) {
        if (!(error instanceof NostrainError)) throw error;
        return { endpoint, problem: error.message, code: error.code };
      }
    }),
  );
}

/**
 * Returns the answer of at least k endpoints. Throws `chain/too-few` or `chain/disagree`, listing all answers, if there
 * is not exactly one.
 */
export async function agree<T>(
  endpoints: Endpoints,
  what: string,
  ask: (endpoint: Endpoint) => Promise<T>,
  spell: (value: T) => string,
  hint = 'name other endpoints with --rpc; at least one of these is wrong, behind or cannot answer',
): Promise<T> {
  const answers = await askAll(endpoints, ask);
  const groups = new Map<string, T[]>();
  for (const each of answers) {
    if ('problem' in each) continue;
    const key = spell(each.value);
    groups.set(key, [...(groups.get(key) ?? []), each.value]);
  }
  const enough = [...groups.values()].filter((values) => values.length >= endpoints.need);
  if (enough.length === 1) return enough[0]![0]!;
  const words = answers.map((each) =>
    'problem' in each ? each.problem : `${each.endpoint.name}: ${spell(each.value)}`,
  );
  if (answers.every((each) => 'problem' in each && each.code === 'chain/unreachable')) {
    const who =
      answers.length === 1 ? 'The chain endpoint does not answer' : 'No chain endpoint answers';
    throw new ChainError('chain/too-few', `${who}: ${words.join('; ')}`, { hint });
  }
  const code = groups.size > 1 ? 'chain/disagree' : 'chain/too-few';
  throw new ChainError(
    code,
    `endpoints do not agree on ${what} (${endpoints.need} needed): ${words.join('; ')}`,
    { hint },
  );
}

/** Returns the first answer that proves itself. Throws `chain/unproved` with all failures if no answer does. */
export async function firstProved<T>(
  { all }: Endpoints,
  what: string,
  ask: (endpoint: Endpoint) => Promise<T>,
  hint: string,
): Promise<T> {
  const problems: string[] = [];
  for (const endpoint of all) {
    try {
      return await ask(endpoint);
    } catch (error) {
      if (!(error instanceof NostrainError)) throw error;
      problems.push(error.message);
    }
  }
  throw new ChainError('chain/unproved', `no endpoint proved ${what}: ${problems.join('; ')}`, {
    hint,
  });
}
