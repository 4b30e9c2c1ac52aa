/** The relay's own description (NIP-11), with the limits it enforces. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Limits, maxMessageBytes } from './limits.ts';

/** What an ordinary event needs besides its content: ids, signature and some tags. */
const ENVELOPE_BYTES = 1024;

const CORS = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Headers': '*',
  'Access-Control-Allow-Methods': 'GET, HEAD, OPTIONS',
};

/** The NIP-11 document. */
function describeRelay(name: string, limits: Limits): Record<string, unknown> {
  return {
    name,
    description: 'A small relay for demos and tests; it keeps events in memory only.',
    software: 'nostrain-relay',
    supported_nips: [1, 11, 40],
    limitation: {
      max_message_length: maxMessageBytes(limits),
      max_content_length: Math.max(0, limits.maxEventBytes - ENVELOPE_BYTES),
      max_subscriptions: limits.maxSubscriptions,
      max_subid_length: limits.maxSubscriptionIdLength,
      max_filters: limits.maxFilters,
      max_limit: limits.maxLimit,
      default_limit: limits.maxLimit,
      max_event_tags: limits.maxTags,
      min_pow_difficulty: 0,
      auth_required: false,
      payment_required: false,
      restricted_writes: limits.kinds !== undefined,
      created_at_lower_limit: limits.createdAtPastSeconds,
      created_at_upper_limit: limits.createdAtFutureSeconds,
    },
  };
}

/** Answers plain HTTP: the document to whoever asks for it, one line of text to browsers. */
export function answerHttp(
  request: IncomingMessage,
  response: ServerResponse,
  name: string,
  limits: Limits,
): void {
  request.resume();
  if (request.method === 'OPTIONS') {
    response.writeHead(204, CORS).end();
  } else if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { ...CORS, Allow: 'GET, HEAD, OPTIONS' }).end();
  } else if (request.headers.accept?.includes('application/nostr+json')) {
    const body = JSON.stringify(describeRelay(name, limits));
    response.writeHead(200, { ...CORS, 'Content-Type': 'application/nostr+json' }).end(body);
  } else {
    response
      .writeHead(200, { ...CORS, 'Content-Type': 'text/plain; charset=utf-8' })
      .end(`${name}: a Nostr relay. Connect with a WebSocket.\n`);
  }
}
