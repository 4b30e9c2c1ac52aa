/** A relay's description of itself (NIP-11): fetched with a deadline and a size cap, every field optional and doubted. */
import { get as httpGet, type IncomingMessage } from 'node:http';
import { get as httpsGet } from 'node:https';
import { ok, type Result, refuse } from '../../base/result.ts';
import type { RelayInfo } from '../../network/transport/relay-info.ts';
import type { RelayDescription } from '../../probe/index.ts';
import { publicLookup } from './sockets.ts';

export interface FetchOptions {
  /** Default 5000. */
  readonly timeoutMs?: number;
  /** Default 65536. */
  readonly maxBytes?: number;
  readonly signal?: AbortSignal;
  /** A stranger named the relay: what leads to a private address is not asked. */
  readonly publicOnly?: boolean | undefined;
}

/** The document behind `ws://…` or `wss://…`, or why there is none; rejects only with `signal.reason`. */
export async function fetchRelayInfo(
  url: string,
  { maxBytes = 65_536, ...options }: FetchOptions = {},
): Promise<Result<RelayInfo>> {
  try {
    const response = await ask(url, options);
    const status = response.statusCode ?? 0;
    if (status >= 300 && status < 400) return refuse('unreachable', '', 'it redirects');
    if (status !== 200) return refuse('http-status', '', `HTTP ${status}`);
    const text = await readText(response, maxBytes);
    if (text === undefined) return refuse('too-large', '', `longer than ${maxBytes} bytes`);
    return parseRelayInfo(jsonOf(text));
  } catch (error) {
    options.signal?.throwIfAborted();
    return refuse('unreachable', '', error instanceof Error ? error.message : String(error));
  }
}

/** Description and clock of a relay in one answer, for relay trials. */
export async function describeRelay(url: string, signal: AbortSignal): Promise<RelayDescription> {
  const [info, skewSeconds] = await Promise.all([
    fetchRelayInfo(url, { signal }),
    fetchClockSkew(url, { signal }),
  ]);
  return {
    ...(info.ok ? { stated: info.value } : {}),
    ...(skewSeconds === undefined ? {} : { skewSeconds }),
  };
}

/** Seconds this machine is ahead of the relay, from the Date of an HTTP answer, which is up to a second old; undefined without one. */
export async function fetchClockSkew(
  url: string,
  options: FetchOptions = {},
): Promise<number | undefined> {
  const before = Date.now();
  try {
    const response = await ask(url, options);
    response.destroy();
    const at = Date.parse(response.headers.date ?? '');
    const here = (before + Date.now()) / 2;
    return Number.isNaN(at) ? undefined : (here - at - 500) / 1000;
  } catch {
    return undefined;
  }
}

/** One request, no redirects; user and password go along as HTTP has it. The deadline holds for the whole answer. */
function ask(
  url: string,
  { timeoutMs = 5000, signal, publicOnly = false }: FetchOptions,
): Promise<IncomingMessage> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const target = new URL(url.replace(/^ws/i, 'http'));
  const options = {
    headers: { Accept: 'application/nostr+json' },
    agent: false,
    signal: signal ? AbortSignal.any([timeout, signal]) : timeout,
    ...(publicOnly ? { lookup: publicLookup() } : {}),
  };
  const get = target.protocol === 'https:' ? httpsGet : httpGet;
  return new Promise((resolve, reject) => {
    get(target, options, resolve).on('error', reject);
  });
}

/** The value in the text, or undefined when it is not JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function readText(response: IncomingMessage, maxBytes: number): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > maxBytes) return undefined; // leaving the loop cancels the rest
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The fields we use, of the right type and in a sane range; all others are ignored. */
export function parseRelayInfo(json: unknown): Result<RelayInfo> {
  if (!isObject(json)) return refuse('malformed', '', 'not an object');
  const limitation = isObject(json.limitation) ? json.limitation : {};
  const text = (value: unknown) => (typeof value === 'string' ? value.slice(0, 200) : undefined);
  const count = (name: string) => {
    const value = limitation[name];
    return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
      ? value
      : undefined;
  };
  const flag = (name: string) => {
    const value = limitation[name];
    return typeof value === 'boolean' ? value : undefined;
  };
  const nips = Array.isArray(json.supported_nips) ? json.supported_nips.slice(0, 200) : [];
  return ok({
    ...given({
      name: text(json.name),
      software: text(json.software),
      version: text(json.version),
    }),
    supportedNips: nips.filter((nip): nip is number => Number.isSafeInteger(nip)),
    limitation: given({
      maxMessageLength: count('max_message_length'),
      maxContentLength: count('max_content_length'),
      maxSubscriptions: count('max_subscriptions'),
      maxFilters: count('max_filters'),
      maxLimit: count('max_limit'),
      maxEventTags: count('max_event_tags'),
      minPowDifficulty: count('min_pow_difficulty'),
      createdAtLowerLimit: count('created_at_lower_limit'),
      createdAtUpperLimit: count('created_at_upper_limit'),
      authRequired: flag('auth_required'),
      paymentRequired: flag('payment_required'),
      restrictedWrites: flag('restricted_writes'),
    }),
  });
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** The same record without the fields that are undefined. */
function given<T extends Record<string, unknown>>(fields: T): Given<T> {
  const out: Given<T> = { ...fields } as Given<T>;
  for (const key of Object.keys(out) as (keyof T)[]) {
    if (out[key] === undefined) delete out[key];
  }
  return out;
}
