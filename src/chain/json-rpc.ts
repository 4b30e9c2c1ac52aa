/** A JSON-RPC 2.0 client for one endpoint; tells errors of the call from failures of the connection. */
import type { Clock } from '../base/clock.ts';
import { ChainError } from '../base/errors.ts';
import type { Post } from './http.ts';

export interface Endpoint {
  /** Host and port, without what could be a secret in the path. */
  readonly name: string;
  /** The result as JSON, unchecked. Throws a `ChainError`: `chain/unreachable`, `chain/answer`, or `chain/refused` with its words. */
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

/** Work that ends by itself or is given up. */
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
  const answer = readJson(text);
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

/** What JSON says, or undefined, which no JSON says. */
function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What others say, in one line of bounded length. */
const clip = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 300);
