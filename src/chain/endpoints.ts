/** Endpoints of chains: HTTP with bounded answers, JSON-RPC 2.0, and the answer that k of n endpoints give. */

import type { Clock } from '../base/async.ts';
import { jsonIn } from '../base/canonical-json.ts';
import { ChainError, NostrainError } from '../base/errors.ts';

export interface PostOptions {
  readonly signal: AbortSignal;
  readonly maxBytes: number;
}

/** The body of the answer; throws a `ChainError` if there is none. */
export type Post = (url: string, body: string, options: PostOptions) => Promise<string>;
export type Get = (url: string, options: PostOptions) => Promise<string>;

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Posts with the platform's `fetch`. JSON-RPC errors come with any status; what is no JSON is its status instead. */
export const createPost =
  (fetch: Fetch): Post =>
  (url, body, options) => {
    const headers = { 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body };
    return ask(fetch, url, init, options, (text) => text.startsWith('{'));
  };

/** Asks with the platform's `fetch`. */
export const createGet =
  (fetch: Fetch): Get =>
  (url, options) =>
    ask(fetch, url, {}, options, () => false);

/** Redirects are errors: an endpoint is who was named. `isAnswer` judges the body of a bad status. */
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

/** What goes wrong as a `ChainError`, unless it was stopped. */
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
      throw new ChainError('chain/answer', `an answer over ${maxBytes} bytes`);
    }
    text += decoder.decode(part.value, { stream: true });
  }
  return text + decoder.decode();
}

/** A JSON-RPC endpoint of a chain. */
export interface Endpoint {
  /** Host and port, without what could be a secret in the path. */
  readonly name: string;
  /** The result as unchecked JSON. Throws a ChainError: `chain/unreachable`, `chain/answer` or `chain/refused`. */
  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
}

export interface EndpointOptions {
  readonly post: Post;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly maxBytes?: number;
}

const MAX_BYTES = 32 * 1024 * 1024;

/** An endpoint that answers within `timeoutMs` or not at all. */
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
        throw told(`${name}: ${method}`, error);
      }
    },
  };
}

const told = (who: string, error: ChainError): ChainError =>
  new ChainError(error.code, `${who}: ${error.message}`, { cause: error });

/** Host and port of a URL; API keys usually are in what follows. */
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
  // it also ends when the work does, and nobody waits for it then
  late.catch(() => {});
  try {
    return await Promise.race([work(both), late]);
  } finally {
    ended.abort();
  }
}

function resultOf(text: string, id: number): unknown {
  const answer = jsonIn(text);
  const said = answer as
    | { id?: unknown; result?: unknown; error?: { message?: unknown } }
    | null
    | undefined;
  if (typeof said?.error === 'object' && said.error !== null) {
    throw new ChainError('chain/refused', clip(String(said.error.message)));
  }
  if (said?.result === undefined || said.id !== id) {
    throw new ChainError('chain/answer', 'the answer is no JSON-RPC result');
  }
  return said.result;
}

const clip = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 300);

export interface Endpoints {
  readonly all: readonly Endpoint[];
  readonly need: number;
}

/** Throws `chain/endpoints` where fewer endpoints are given than must agree. */
export function assertEnough({ all, need }: Endpoints): void {
  if (Number.isInteger(need) && need >= 1 && all.length >= need) return;
  throw new ChainError('chain/endpoints', `${need} endpoints must agree, ${all.length} are given`, {
    hint: 'name as many with --rpc as --agree says',
  });
}

export type EndpointAnswer<T> =
  | { readonly endpoint: Endpoint; readonly value: T }
  | { readonly endpoint: Endpoint; readonly problem: string; readonly code: string };

/** Everybody's answer; failures of others are values, ours are thrown. */
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

/** The answer of at least k endpoints. Throws `chain/disagree` with everybody's words when there is not exactly one. */
export async function agree<T>(
  endpoints: Endpoints,
  what: string,
  ask: (endpoint: Endpoint) => Promise<T>,
  spell: (value: T) => string,
  hint = 'ask other endpoints with --rpc; one of these is wrong, behind or cannot answer',
): Promise<T> {
  const said = await askAll(endpoints, ask);
  const groups = new Map<string, T[]>();
  for (const each of said) {
    if ('problem' in each) continue;
    const key = spell(each.value);
    groups.set(key, [...(groups.get(key) ?? []), each.value]);
  }
  const enough = [...groups.values()].filter((values) => values.length >= endpoints.need);
  if (enough.length === 1) return enough[0]![0]!;
  const words = said.map((each) =>
    'problem' in each ? each.problem : `${each.endpoint.name}: ${spell(each.value)}`,
  );
  if (said.every((each) => 'problem' in each && each.code === 'chain/unreachable')) {
    const who =
      said.length === 1 ? 'The chain endpoint does not answer' : 'No chain endpoint answers';
    throw new ChainError('chain/too-few', `${who}: ${words.join('; ')}`, { hint });
  }
  const code = groups.size > 1 ? 'chain/disagree' : 'chain/too-few';
  throw new ChainError(
    code,
    `no one answer from ${endpoints.need} endpoints on ${what}: ${words.join('; ')}`,
    { hint },
  );
}

/** The first answer that proves itself. Throws with everybody's words when none does. */
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
  throw new ChainError('chain/unproved', `no endpoint proves ${what}: ${problems.join('; ')}`, {
    hint,
  });
}
