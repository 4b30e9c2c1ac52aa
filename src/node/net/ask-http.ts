/** HTTP requests to sources of chunks: redirects are followed one by one, and addresses of strangers must be public. */
import { type IncomingMessage, Agent as PlainAgent, request as requestPlain } from 'node:http';
import { request as requestSecure, Agent as SecureAgent } from 'node:https';
import { onAbort } from '../../base/async.ts';
import type { AskHttp, HttpAnswer, HttpRequest } from '../../network/chunks/http-source.ts';
import { SourceError } from '../../network/chunks/source.ts';
import { isPublicIp, withoutSecrets } from '../../network/transport/relay-urls.ts';
import { publicLookup } from './relays.ts';

export interface AskOptions {
  /** The address came from the user of this machine, not from an event, a spec or a directory. */
  readonly isTrusted: boolean;
  /** Allows private and loopback addresses, even if a stranger named them. */
  readonly allowPrivate?: boolean | undefined;
  /** Longest silence of a connection, in milliseconds. */
  readonly silentMs?: number;
}

/** Maximum number of redirects that one request follows. */
const MOST_REDIRECTS = 3;

/** Default for `silentMs`. */
const SILENT_MS = 30_000;

const lookup = publicLookup();

const pool = { keepAlive: true, maxSockets: 64 };

const agentsFor = () => ({ 'http:': new PlainAgent(pool), 'https:': new SecureAgent(pool) });

const agents = agentsFor();

/** Pooled connections to public hosts only: each was opened after a DNS lookup that checked the address. */
const publicAgents = agentsFor();

/** Returns a function that sends HTTP and HTTPS requests. It throws a SourceError if an address is not allowed. */
export const createAskHttp =
  ({ isTrusted, allowPrivate = false, silentMs = SILENT_MS }: AskOptions): AskHttp =>
  async (address, request) => {
    let url = address;
    for (let hops = 0; hops <= MOST_REDIRECTS; hops++) {
      const isOpen = allowPrivate || (isTrusted && hops === 0);
      const answer = await ask(assertAskable(url, isOpen), request, { isOpen, silentMs });
      const next = [301, 302, 303, 307, 308].includes(answer.status) && answer.header('location');
      if (!next) return answer;
      answer.cancel();
      if (request.method === 'PUT')
        throw new SourceError(`${withoutSecrets(url)} redirects uploads, which is not followed`);
      url = new URL(next, url).href;
    }
    throw new SourceError(`${withoutSecrets(address)} redirects more than ${MOST_REDIRECTS} times`);
  };

/** Parses an address. Throws a SourceError if it is not HTTP, or a private IP address that is not allowed. */
function assertAskable(text: string, isOpen: boolean): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new SourceError(`${withoutSecrets(text)} is not an HTTP address`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isIp = host.includes(':') || /^[\d.]+$/.test(host);
  if (!isOpen && isIp && !isPublicIp(host)) {
    throw new SourceError(`${withoutSecrets(text)} is a private address that a stranger named`);
  }
  return url;
}

function ask(
  url: URL,
  { method = 'GET', headers = {}, body, signal }: HttpRequest,
  { isOpen, silentMs }: { readonly isOpen: boolean; readonly silentMs: number },
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const send = url.protocol === 'https:' ? requestSecure : requestPlain;
    const sent = send(url, {
      method,
      headers: { 'accept-encoding': 'identity', ...headers },
      // a pooled connection of `agents` may lead to a private address
      agent: (isOpen ? agents : publicAgents)[url.protocol as keyof typeof agents],
      ...(isOpen ? {} : { lookup }),
    });
    const release = onAbort(signal, () => sent.destroy(signal.reason as Error));
    sent.setTimeout(silentMs, () => sent.destroy(new Error(`silent for ${silentMs / 1000} s`)));
    sent.on('close', release);
    sent.on('error', reject);
    sent.on('response', (message) => resolve(answerOf(message)));
    sent.end(body);
  });
}

function answerOf(message: IncomingMessage): HttpAnswer {
  // an error after `cancel` has no reader
  message.on('error', () => undefined);
  return {
    status: message.statusCode ?? 0,
    header: (name) => {
      const value = message.headers[name];
      return Array.isArray(value) ? value[0] : value;
    },
    body: message as AsyncIterable<Uint8Array>,
    cancel: () => void message.destroy(),
  };
}
