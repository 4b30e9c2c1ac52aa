/**
 * A small Nostr relay for demos and tests, with seeded faults and the manners of others. Knows nothing of training.
 *
 * @module nostrain/relay
 */
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { type Core, type Counts, zeroCounts } from './core.ts';
import type { EventLog } from './durable/event-log.ts';
import { recover } from './durable/recover.ts';
import type { FaultSettings } from './faults/fault.ts';
import { answerHttp } from './info.ts';
import { defaultLimits, type Limits, maxFrameBytes } from './limits.ts';
import { LiveIndex } from './live-index.ts';
import type { AuthMode, Policy } from './policies/policy.ts';
import { createStandardPolicies } from './policies/standard.ts';
import { Meter } from './rates.ts';
import { Session } from './session.ts';
import { Store } from './store.ts';
import { ours } from './strict/ours.ts';
import type { Profile } from './strict/profile.ts';
import { type ProfileName, profiles } from './strict/profiles.ts';

/** How long a closing relay waits for readers to say goodbye. */
const GOODBYE_MS = 200;

export interface RelayOptions {
  /** Default `127.0.0.1`. */
  readonly host?: string;
  /** Default 0: any free port. */
  readonly port?: number;
  /** Largest event; default 2 MiB. */
  readonly maxEventBytes?: number;
  /** The other limits, where they differ from the defaults. */
  readonly limits?: Partial<Limits>;
  /** Behaves like another relay: its limits, words and NIP-11 document. `limits` still count. */
  readonly strict?: ProfileName;
  /** Who must authenticate (NIP-42); default `none`. */
  readonly auth?: AuthMode;
  /** Leading zero bits an id must have (NIP-13); default 0. */
  readonly minPow?: number;
  /** The URL others know this relay by, when it is not the one they connect to (behind a proxy). */
  readonly publicUrl?: string;
  /** Folder to keep events in; without it they are gone with the relay. */
  readonly store?: string;
  readonly name?: string;
  readonly faults?: FaultSettings;
  /** Seeds the faults; default 0. */
  readonly seed?: number;
  /** Replaces the standard policies. */
  readonly policies?: readonly Policy[];
  /** Milliseconds since the epoch; default `Date.now`. */
  readonly nowMs?: () => number;
}

export interface RelayStats extends Readonly<Counts> {
  /** Open now. */
  readonly connections: number;
  /** Open now, over all connections. */
  readonly subscriptions: number;
  /** Kept now. */
  readonly eventsStored: number;
  /** JSON of the events kept now. */
  readonly bytesStored: number;
  /** Bytes at the end of the folder's log that an earlier crash had torn. */
  readonly tornBytesCut: number;
}

export interface Relay {
  /** `ws://host:port`. */
  readonly url: string;
  readonly port: number;
  stats(): RelayStats;
  /** Disconnects everyone and frees the port. */
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
  const server = createServer((request, response) => answerHttp(request, response, core));
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: maxFrameBytes(limits),
    perMessageDeflate: false,
  });
  server.on('upgrade', (request, socket, head) => upgrade(core, sockets, request, socket, head));
  try {
    await listen(server, host, options.port ?? 0);
  } catch (cause) {
    await recovered?.close();
    throw cause;
  }
  const { port } = server.address() as AddressInfo;
  let closing: Promise<void> | undefined;
  return {
    url: `ws://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    stats: () => statsOf(core, recovered?.cutBytes ?? 0),
    close: () => {
      closing ??= closeAll(core, server).then(() => recovered?.close());
      return closing;
    },
  };
}

const profileOf = ({ strict }: RelayOptions): Profile =>
  strict === undefined ? ours : profiles[strict];

function limitsOf(options: RelayOptions): Limits {
  const { maxEventBytes, minPow } = options;
  return {
    ...defaultLimits,
    ...profileOf(options).limits,
    ...options.limits,
    ...(maxEventBytes === undefined ? {} : { maxEventBytes }),
    ...(minPow === undefined ? {} : { minPow }),
  };
}

function createCore(
  options: RelayOptions,
  limits: Limits,
  store: Store,
  log: EventLog | undefined,
): Core {
  return {
    name: options.name ?? 'nostrain relay',
    limits,
    profile: profileOf(options),
    auth: options.auth ?? 'none',
    publicUrl: options.publicUrl,
    messages: new Meter(limits.messageRates),
    connections: new Meter(limits.connectionRates),
    policies: options.policies ?? createStandardPolicies(limits),
    faults: options.faults ?? {},
    seed: options.seed ?? 0,
    store,
    log,
    sessions: new Set(),
    live: new LiveIndex(),
    counts: zeroCounts(),
    nowMs: options.nowMs ?? Date.now,
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

/** Turns an HTTP request into a session, unless the faults refuse this connection. */
function upgrade(
  core: Core,
  sockets: WebSocketServer,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): void {
  socket.on('error', () => socket.destroy());
  if (core.counts.connectionsRefused < (core.faults.refuseConnections ?? 0)) {
    core.counts.connectionsRefused++;
    socket.end(
      'HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n',
    );
    return;
  }
  const address = request.socket.remoteAddress ?? '';
  const host = request.headers.host ?? '';
  sockets.handleUpgrade(request, socket, head, (ws) => {
    if (!core.connections.takes(address, core.nowMs())) {
      core.counts.connectionsRefused++;
      ws.terminate();
      return;
    }
    const number = core.counts.connectionsTotal++;
    core.sessions.add(new Session(core, ws, socket, { number, address, host }));
  });
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
