/**
 * Relays without ports: the relay of `relay/` behind sockets in memory, so that a test on a clock of its own can tell
 * when every message has arrived. Faults that wait (`delay`, `reorder`, `bandwidth`) need real time and are refused.
 */
import { EventEmitter } from 'node:events';
import type { OpenSocket, Socket } from 'nostrain/network';
import { type CoreOptions, createCore, limitsOf, Store } from 'nostrain/relay';
import type { Counts } from '../../relay/core.ts';
import { hostOf, Session } from '../../relay/session.ts';

/** A relay in memory; its members are those of a `Relay` that listens. */
export interface LocalRelay {
  readonly url: string;
  stats(): Readonly<Counts>;
  /** Closes all connections and refuses new ones until `mend`. */
  cut(): void;
  mend(): void;
  close(): Promise<void>;
}

export interface MemoryNetwork {
  relay(options?: CoreOptions): LocalRelay;
  /** Connects to a relay of this network; any other address refuses. */
  readonly openSocket: OpenSocket;
  /** Messages that have travelled so far: while it grows, the network is busy. */
  readonly moved: number;
}

type Deliver = (arrive: () => void) => void;

/** Creates a network whose relays use the time of this clock. */
export function createMemoryNetwork(nowMs: () => number): MemoryNetwork {
  const relays = new Map<string, { accept(client: Client): void }>();
  let moved = 0;
  const deliver: Deliver = (arrive) => {
    setImmediate(() => {
      moved++;
      arrive();
    });
  };
  return {
    get moved() {
      return moved;
    },
    relay(options = {}) {
      const { delay, reorder, bandwidth } = options.faults ?? {};
      if (delay ?? reorder ?? bandwidth) throw new TypeError('faults that wait need a real relay');
      const url = `ws://127.0.0.1:${1 + relays.size}`;
      const limits = limitsOf(options);
      const core = createCore(
        { ...options, nowMs: options.nowMs ?? nowMs },
        limits,
        new Store(limits),
        undefined,
      );
      let isUp = true;
      const cut = () => {
        isUp = false;
        for (const session of [...core.sessions]) session.terminate();
      };
      relays.set(url, {
        accept(client) {
          if (!isUp) {
            client.refuse(`connect ECONNREFUSED ${hostOf(url)}`);
            return;
          }
          const far = new ServerEnd(client, deliver);
          const number = core.counts.connectionsTotal++;
          const account = { used: 0, subscribed: 0 };
          const hosts = new Set([hostOf(url) ?? '']);
          const origin = { number, address: '127.0.0.1', isNear: true, account, hosts };
          core.sessions.add(new Session(core, far as never, far.stream as never, origin));
          client.accept(far);
        },
      });
      return {
        url,
        stats: () => core.counts,
        cut,
        mend: () => {
          isUp = true;
        },
        close: async () => cut(),
      };
    },
    openSocket(url) {
      const client = new Client(deliver);
      deliver(() => {
        const relay = relays.get(url);
        if (relay) relay.accept(client);
        else client.refuse(`nothing listens at ${url}`);
      });
      return client.socket;
    },
  };
}

/** Connection that ended without a goodbye. */
const ABNORMAL = 1006;

/** The worker's end. */
class Client {
  readonly socket: Socket;
  readonly #deliver: Deliver;
  #server: ServerEnd | undefined;
  #isOver = false;

  constructor(deliver: Deliver) {
    this.#deliver = deliver;
    this.socket = {
      bufferedAmount: 0,
      onopen: undefined,
      onmessage: undefined,
      onerror: undefined,
      onclose: undefined,
      send: (text) => deliver(() => this.#server?.hear(Buffer.from(text))),
      close: () => deliver(() => this.end(1000, '')),
    };
  }

  accept(server: ServerEnd): void {
    if (this.#isOver) {
      server.terminate();
      return;
    }
    this.#server = server;
    this.socket.onopen?.();
  }

  refuse(message: string): void {
    this.socket.onerror?.(message);
    this.end(ABNORMAL, '');
  }

  hear(text: string, bytes: number): void {
    if (this.#isOver) return;
    const { longestEventBytes = Number.POSITIVE_INFINITY } = this.socket;
    if (bytes > longestEventBytes && text.startsWith('["EVENT"')) this.socket.onlong?.(bytes);
    else this.socket.onmessage?.(text, bytes);
  }

  end(code: number, reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#deliver(() => {
      this.socket.onclose?.(code, reason);
      this.#server?.gone();
    });
  }
}

/** The relay's end: what a session uses of `ws` and of the TCP socket under it. */
class ServerEnd extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  isPaused = false;
  readonly stream: {
    readonly writableLength: number;
    bytesRead: number;
    cork(): void;
    uncork(): void;
    write(bytes: Buffer, done?: () => void): void;
  };
  readonly #client: Client;
  readonly #deliver: Deliver;
  #waiting: Buffer[] = [];
  #written: Buffer[] = [];

  constructor(client: Client, deliver: Deliver) {
    super();
    this.#client = client;
    this.#deliver = deliver;
    this.stream = {
      ...{ writableLength: 0, bytesRead: 0, cork: () => {}, uncork: () => this.#flush() },
      write: (bytes, done) => {
        this.#written.push(bytes);
        if (done) deliver(done);
      },
    };
  }

  hear(bytes: Buffer): void {
    this.stream.bytesRead += bytes.length;
    if (this.isPaused) this.#waiting.push(bytes);
    else this.emit('message', bytes, false);
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    for (const bytes of this.#waiting.splice(0)) this.#deliver(() => this.hear(bytes));
  }

  ping(): void {
    this.#deliver(() => this.emit('pong'));
  }

  close(code: number, reason: string): void {
    this.readyState = 2;
    // what was written before it arrives first
    this.#deliver(() => this.#client.end(code, reason));
  }

  terminate(): void {
    this.readyState = 3;
    this.#client.end(ABNORMAL, '');
    this.#deliver(() => this.gone());
  }

  /** The connection is over on both sides. */
  gone(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.readyState = 3;
    this.emit('close');
  }
  #isGone = false;

  /** Cuts what was written into WebSocket frames (RFC 6455), whole as the relay writes them, and delivers each. */
  #flush(): void {
    const bytes = Buffer.concat(this.#written.splice(0));
    for (let at = 0; at < bytes.length; ) {
      const short = bytes[at + 1]!;
      const [head, length] =
        short < 126
          ? [2, short]
          : short === 126
            ? [4, bytes.readUInt16BE(at + 2)]
            : [10, Number(bytes.readBigUInt64BE(at + 2))];
      const text = bytes.toString('utf8', at + head, at + head + length);
      at += head + length;
      this.#deliver(() => this.#client.hear(text, length));
    }
  }
}
