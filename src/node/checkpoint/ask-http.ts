/**
 * HTTP requests to places where chunks live. Where strangers named the address only public hosts are asked, after every look-up and every redirect;
 * where a person named it, redirects alone are held to that.
 */
import { type IncomingMessage, Agent as PlainAgent, request as requestPlain } from 'node:http';
import { request as requestSecure, Agent as SecureAgent } from 'node:https';
import { onAbort } from '../../base/async.ts';
import type { AskHttp, HttpAnswer, HttpRequest } from '../../network/chunks/http-source.ts';
import { SourceError } from '../../network/chunks/source.ts';
import { isPublicIp, withoutSecrets } from '../../network/transport/relay-urls.ts';
import { publicLookup } from '../net/relays.ts';

export interface AskOptions {
  /** The address came from a person at this machine, not from an event, a spec or a directory. */
  readonly isTrusted: boolean;
  /** Private and loopback addresses are fine wherever they come from. */
  readonly allowPrivate?: boolean | undefined;
  /** How long a connection may be silent. */
  readonly silentMs?: number;
}

const MOST_REDIRECTS = 3;
const SILENT_MS = 30_000;
const lookup = publicLookup();
const pool = { keepAlive: true, maxSockets: 64 };
const agentsFor = () => ({ 'http:': new PlainAgent(pool), 'https:': new SecureAgent(pool) });
const agents = agentsFor();
/** Their connections lead to public hosts alone: each was made after a look-up that saw to that. */
const publicAgents = agentsFor();

/** Asks over HTTP and HTTPS. Throws a SourceError about an address that may not be asked. */
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
        throw new SourceError(`${withoutSecrets(url)} sends uploads elsewhere`);
      url = new URL(next, url).href;
    }
    throw new SourceError(`${withoutSecrets(address)} redirects for ever`);
  };

/** The address where it may be asked: by its form here, and by where its name leads when it is looked up. */
function assertAskable(text: string, isOpen: boolean): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new SourceError(`${withoutSecrets(text)} is no HTTP address`);
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
      // a connection of another pool may lead to what may not be asked here
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
  // who cancels does not hear of what is lost then
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
