/** The relay's NIP-11 document, with the limits it enforces. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Core } from './core.ts';

const CORS = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Headers': '*',
  'Access-Control-Allow-Methods': 'GET, HEAD, OPTIONS',
};

/** Limits that allow no run, for the fault `falseLimits`. */
const NOTHING = {
  max_message_length: 512,
  max_content_length: 64,
  max_subscriptions: 1,
  max_filters: 1,
  max_limit: 1,
  min_pow_difficulty: 60,
};

/** Returns the NIP-11 document: that of the profile, with this relay's limits. */
function describeRelay({ name, profile, limits, auth, faults }: Core): Record<string, unknown> {
  const document = profile.document(limits);
  const limitation = document.limitation as Record<string, unknown>;
  const stated = { ...limitation, auth_required: auth !== 'none' };
  return { name, ...document, limitation: faults.falseLimits ? { ...stated, ...NOTHING } : stated };
}

/** Answers plain HTTP: the NIP-11 document if it is requested, otherwise one line of text. */
export function answerHttp(request: IncomingMessage, response: ServerResponse, core: Core): void {
  request.resume();
  if (request.method === 'OPTIONS') {
    response.writeHead(204, CORS).end();
  } else if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { ...CORS, Allow: 'GET, HEAD, OPTIONS' }).end();
  } else if (request.headers.accept?.includes('application/nostr+json')) {
    const body = JSON.stringify(describeRelay(core));
    response.writeHead(200, { ...CORS, 'Content-Type': 'application/nostr+json' }).end(body);
  } else {
    response
      .writeHead(200, { ...CORS, 'Content-Type': 'text/plain; charset=utf-8' })
      .end(`${core.name}: a Nostr relay. Connect with a WebSocket.\n`);
  }
}
