/** The HTTP server of the API: token, limits on size and rate, JSON-RPC at `/`, and the event stream of a run. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { NostrainError } from '../../../base/errors.ts';
import { readUpTo } from '../../../network/chunks/source.ts';
import { listen, type PageServer } from '../../../node/net/http-server.ts';
import { type Api, stateOf } from './context.ts';
import { runParam } from './method.ts';
import { readCalls } from './rpc.ts';

/** Maximum bytes of a request: a contribution with 64 chunks, or a sealed manifest for ten thousand recipients. */
const MOST_BODY_BYTES = 4 << 20;
/** Rate limit: units per second, and the most that may be saved up. A `getRun` costs 1, other methods more. */
const UNITS_PER_SECOND = 5000;
const MOST_UNITS = 10_000;
/** Bytes of a body that cost one unit of the rate limit, because parsing takes time. */
const BYTES_PER_UNIT = 16_384;
/** Maximum connections: each has one request in progress, with its body, or one event stream. */
const MOST_CONNECTIONS = 64;
/** Maximum bytes that wait for a slow reader of an event stream; then it is disconnected. */
const MOST_WAITING_BYTES = 1 << 20;
const REQUEST_MS = 30_000;

export interface ServerOptions {
  readonly host: string;
  /** 0 means any free port. */
  readonly port: number;
  readonly token: string;
}

/** Starts to serve. Throws a ConfigError (`serve/listen`) if the port is taken. */
export async function serveApi(api: Api, options: ServerOptions): Promise<PageServer> {
  const handle = createHandler(api, options.token);
  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (!request.destroyed) api.onNotice(`a request failed: ${error}`);
      response.destroy();
    });
  });
  server.requestTimeout = REQUEST_MS;
  server.maxConnections = MOST_CONNECTIONS;
  return await listen(server, options, 'serve/listen', '--listen');
}

const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();

function createHandler(api: Api, token: string) {
  const expected = hashOf(`Bearer ${token}`);
  const take = createMeter(() => api.clock.now());

  const isAllowed = ({ headers }: IncomingMessage): boolean =>
    timingSafeEqual(hashOf(headers.authorization ?? ''), expected);

  async function call(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const declared = Number(request.headers['content-length'] ?? 0);
    const body = request.iterator({ destroyOnReturn: false });
    const bytes = declared > MOST_BODY_BYTES ? undefined : await readUpTo(body, MOST_BODY_BYTES);
    if (bytes === undefined) return refuse(response, 413, `at most ${MOST_BODY_BYTES} bytes`);
    if (!take(Math.ceil(bytes.length / BYTES_PER_UNIT))) return refuse(response, 429, 'too fast');
    const calls = readCalls(new TextDecoder().decode(bytes));
    if (!take(calls.cost)) return refuse(response, 429, 'too fast');
    const answer = await calls.answer(api);
    if (answer === undefined) response.writeHead(204).end();
    else response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
  }

  async function stream(run: string, response: ServerResponse): Promise<void> {
    if (!take(1)) return refuse(response, 429, 'too fast');
    const follow = async () => api.runs.get(runParam.read(run, 'run'));
    const followed = await follow().catch((error: unknown) => {
      if (error instanceof NostrainError) return undefined;
      throw error;
    });
    if (followed === undefined) return refuse(response, 404, 'no such run');
    const type = 'text/event-stream';
    response.writeHead(200, { 'content-type': type, 'cache-control': 'no-store' });
    let sent = '';
    const send = (): void => {
      const text = JSON.stringify(stateOf(followed.open.picture));
      // a comment shows that the connection is alive
      response.write(text === sent ? ':\n\n' : `event: run\ndata: ${text}\n\n`);
      sent = text;
      if (response.writableLength > MOST_WAITING_BYTES) response.destroy();
    };
    send();
    followed.changes.addEventListener('picture', send);
    followed.signal.addEventListener('abort', () => response.end(), { once: true });
    await new Promise((resolve) => response.once('close', resolve));
    followed.changes.removeEventListener('picture', send);
  }

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (!isAllowed(request)) return refuse(response, 401, 'the token is missing or wrong');
    const { method, url = '/' } = request;
    const run = /^\/runs\/([0-9a-z]+)\/events$/.exec(url)?.[1];
    if (method === 'GET' && run !== undefined) return stream(run, response);
    if (method === 'POST' && url === '/') return call(request, response);
    refuse(response, 404, 'POST JSON-RPC to /, or GET /runs/RUN/events');
  };
}

/** Ends a request without reading more of it. */
function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    connection: 'close',
    ...(status === 401 && { 'www-authenticate': 'Bearer' }),
    ...(status === 429 && { 'retry-after': '1' }),
  });
  response.end(JSON.stringify({ error: message }));
}

/** Returns a function that takes units, and reports false if not enough are left. */
function createMeter(nowMs: () => number): (units: number) => boolean {
  let left = MOST_UNITS;
  let countedMs = nowMs();
  return (units) => {
    const ms = nowMs();
    left = Math.min(MOST_UNITS, left + (Math.max(0, ms - countedMs) / 1000) * UNITS_PER_SECOND);
    countedMs = ms;
    if (left < units) return false;
    left -= units;
    return true;
  };
}
