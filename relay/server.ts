/**
 * A small Nostr relay for training runs, demos and tests, with seeded faults and the dialects of other relays.
 * It knows nothing of training.
 *
 * @module nostrain/relay
 */
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { WebSocketServer } from 'ws';
import { Admission } from './admission.ts';
import {
  type Connection,
  type Core,
  type CoreOptions,
  type Counts,
  createCore,
  limitsOf,
} from './core.ts';
import { recover } from './durable/recover.ts';
import { answerHttp } from './info.ts';
import { maxFrameBytes } from './limits.ts';
import { hostOf, Session } from './session.ts';
import { Store } from './store.ts';

/** How long a closing relay waits for connections to close. */
const GOODBYE_MS = 200;
/** How often connections are checked for silence and for unsent bytes. */
const CHECK_MS = 1000;
/** Maximum time for an HTTP request to arrive. */
const REQUEST_MS = 10_000;

/** Options of `createRelay`: address, limits, policies and faults. */
export interface RelayOptions extends CoreOptions {
  /** Default `127.0.0.1`. */
  readonly host?: string;
  /** Default 0: any free port. */
  readonly port?: number;
  /** Folder to store events in; without it they are lost when the relay stops. */
  readonly store?: string;
}

/** Counters of a running relay. */
export interface RelayStats extends Readonly<Counts> {
  /** Currently open. */
  readonly connections: number;
  /** Currently open, over all connections. */
  readonly subscriptions: number;
  /** Currently stored. */
  readonly eventsStored: number;
  /** Bytes of JSON of the stored events. */
  readonly bytesStored: number;
  /** Maximum work in one turn of the event loop so far, in units of about a microsecond. */
  readonly mostWorkPerTurn: number;
  /** Torn bytes that an earlier crash left at the end of the log, and that were cut off. */
  readonly tornBytesCut: number;
}

/** A running relay, created by `createRelay`. */
export interface Relay {
  /** `ws://host:port`. */
  readonly url: string;
  readonly port: number;
  stats(): RelayStats;
  /** Disconnects all clients and frees the port. */
  close(): Promise<void>;
}

/**
 * Starts a relay; rejects with the system's error (`code` is `EADDRINUSE`) when the port is taken. In anybody's tests:
 *
 *     import { createRelay } from 'nostrain/relay';
 *     const relay = await createRelay({ strict: 'strfry', faults: { drop: 0.1 }, seed: 7 });
 *     const ws = new WebSocket(relay.url);
 *     // … what is tested …
 *     await relay.close();
 */
export async function createRelay(options: RelayOptions = {}): Promise<Relay> {
  const limits = limitsOf(options);
  const store = new Store(limits);
  const nowMs = options.nowMs ?? Date.now;
  const recovered =
    options.store === undefined
      ? undefined
      : await recover(options.store, store, Math.floor(nowMs() / 1000));
  const core = createCore(options, limits, store, recovered?.log);
  const host = options.host ?? '127.0.0.1';
  const admission = new Admission(limits, options.publicUrl !== undefined);
  const server = createServer((request, response) => answerHttp(request, response, core));
  guard(server, admission, core);
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: maxFrameBytes(limits),
    perMessageDeflate: false,
  });
  server.on('upgrade', (request, socket, head) =>
    upgrade(core, admission, sockets, { request, socket: socket as Socket, head }),
  );
  try {
    await listen(server, host, options.port ?? 0);
  } catch (cause) {
    await recovered?.close();
    throw cause;
  }
  const { port } = server.address() as AddressInfo;
  const timer = setInterval(() => checkSessions(core), CHECK_MS).unref();
  let closing: Promise<void> | undefined;
  return {
    url: `ws://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    stats: () => statsOf(core, recovered?.cutBytes ?? 0),
    close: () => {
      clearInterval(timer);
      closing ??= closeAll(core, server).then(() => recovered?.close());
      return closing;
    },
  };
}

const listen = (server: Server, host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });

/** Keeps silent and too frequent sockets from using up the connections. */
function guard(server: Server, admission: Admission, { nowMs, counts }: Core): void {
  server.maxConnections = admission.maxSockets;
  server.headersTimeout = REQUEST_MS;
  server.requestTimeout = REQUEST_MS;
  server.on('connection', (socket) => {
    if (admission.mayAsk(socket.remoteAddress ?? '', nowMs())) return;
    counts.connectionsRefused++;
    socket.destroy();
  });
}

interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  readonly head: Buffer;
}

/** Turns an HTTP request into a session, unless a fault refuses the connection or a limit is reached. */
function upgrade(
  core: Core,
  admission: Admission,
  sockets: WebSocketServer,
  { request, socket, head }: Upgrade,
): void {
  socket.on('error', () => socket.destroy());
  if (core.counts.connectionsRefused < (core.faults.refuseConnections ?? 0)) {
    refuse(core, socket, '503 Service Unavailable');
    return;
  }
  const admitted = admission.admit(request, core.nowMs());
  if (!admitted) {
    refuse(core, socket, '429 Too Many Requests');
    return;
  }
  socket.once('close', admitted.leave);
  sockets.handleUpgrade(request, socket, head, (ws) => {
    if (!core.connections.takes(admitted.address, core.nowMs())) {
      core.counts.connectionsRefused++;
      ws.terminate();
      return;
    }
    const number = core.counts.connectionsTotal++;
    const origin = { number, ...admitted, hosts: hostsOf(core, socket) };
    core.sessions.add(new Session(core, ws, socket, origin));
  });
}

function refuse(core: Core, socket: Socket, status: string): void {
  core.counts.connectionsRefused++;
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}

/**
 * Returns the hosts that name this relay to the client of this socket: the public one, or the socket's local address.
 */
function hostsOf({ publicUrl }: Core, { localAddress = '', localPort }: Socket): Set<string> {
  if (publicUrl !== undefined) return new Set([hostOf(publicUrl) ?? '']);
  const address = localAddress.replace(/^::ffff:/i, '');
  const isLoopback = address === '::1' || address.startsWith('127.');
  const names = [address, ...(isLoopback ? ['localhost', '127.0.0.1', '::1'] : [])];
  const urls = names.map((name) => `ws://${name.includes(':') ? `[${name}]` : name}:${localPort}`);
  return new Set(urls.flatMap((url) => hostOf(url) ?? []));
}

/** Ends silent connections, and those with the most unsent or unread bytes if the total is too large. */
function checkSessions({ sessions, limits, nowMs }: Core): void {
  for (const session of sessions) session.checkIdle(nowMs());
  const { maxUnsentBytesInAll, maxUnreadBytesInAll } = limits;
  endLargest(sessions, (session) => session.unsentBytes, maxUnsentBytesInAll);
  endLargest(sessions, (session) => session.unreadBytes, maxUnreadBytesInAll);
}

function endLargest(
  sessions: Iterable<Connection>,
  sizeOf: (session: Connection) => number,
  most: number,
): void {
  const sized = Array.from(sessions, (session) => ({ session, size: sizeOf(session) }));
  let total = sized.reduce((sum, { size }) => sum + size, 0);
  if (total <= most) return;
  for (const { session, size } of sized.sort((a, b) => b.size - a.size)) {
    if (total <= most) return;
    session.terminate();
    total -= size;
  }
}

function statsOf(core: Core, tornBytesCut: number): RelayStats {
  let subscriptions = 0;
  for (const session of core.sessions) subscriptions += session.subscriptions.size;
  return {
    ...core.counts,
    connections: core.sessions.size,
    subscriptions,
    eventsStored: core.store.size,
    bytesStored: core.store.bytes,
    mostWorkPerTurn: Math.ceil(core.turns.most),
    tornBytesCut,
  };
}

function closeAll(core: Core, server: Server): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      for (const session of core.sessions) session.terminate();
      server.closeAllConnections();
    }, GOODBYE_MS);
    server.close(() => {
      clearTimeout(timer);
      core.sessions.clear();
      resolve();
    });
    for (const session of core.sessions) session.close();
  });
}
