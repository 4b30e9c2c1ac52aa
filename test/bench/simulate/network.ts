/**
 * An in-memory network between the sockets of workers and the sessions of relays: latency and lines of so many bytes a second
 * on both ends, lost packets as the wait for their repetition. Both ends are the real ones, and what passes is counted.
 */
import { EventEmitter } from 'node:events';
import { philox, unit } from 'nostrain/base';
import type { OpenSocket, Socket } from 'nostrain/network';
import { type CoreOptions, createCore, limitsOf, Store } from 'nostrain/relay';
import type { Core } from '../../../relay/core.ts';
import { hostOf, Session } from '../../../relay/session.ts';
import type { VirtualClock } from './virtual-clock.ts';

export interface NetworkOptions {
  readonly seed: number;
  /** One way, between these two, in milliseconds. */
  readonly latencyMs: readonly [number, number];
  /** Share of the writes that have to be repeated. */
  readonly loss: number;
  /** Bytes a second: down and up the line of a worker, and up that of a relay. */
  readonly downRate: number;
  readonly upRate: number;
  readonly relayRate: number;
}

/** What passed the line of one worker. */
export interface Traffic {
  bytesUp: number;
  bytesDown: number;
  framesUp: number;
  framesDown: number;
}

/** Hears of every frame that a worker sends, or gets. */
export interface Tap {
  sent(worker: number, text: string, bytes: number): void;
  got(worker: number, text: string, bytes: number): void;
}

/** Moments are so far apart: what arrives within one arrives together. */
const MOMENT_MS = 20;
const REPEATED_MS = 250;
const [TERMINATED, NORMAL] = [1006, 1000] as const;

/** The end of a connection that a relay's session holds, as `ws` and the socket under it. */
class ServerEnd extends EventEmitter {
  readonly OPEN = 1;
  readyState = 1;
  isPaused = false;
  bytesRead = 0;
  /** Bytes that have not left the relay yet. */
  writableLength = 0;
  readonly #line: Line;
  #parts: Buffer[] = [];
  #done: (() => void)[] = [];

  constructor(line: Line) {
    super();
    this.#line = line;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  ping(): void {
    this.emit('pong');
  }

  cork(): void {}

  write(part: Buffer, done?: () => void): void {
    this.#parts.push(part);
    if (done) this.#done.push(done);
  }

  uncork(): void {
    const [parts, done] = [this.#parts, this.#done];
    this.#parts = [];
    this.#done = [];
    const bytes = parts.reduce((sum, { length }) => sum + length, 0);
    this.writableLength += bytes;
    this.#line.down(parts, bytes, () => {
      this.writableLength -= bytes;
      for (const call of done) call();
    });
  }

  close(code: number = NORMAL): void {
    this.readyState = 3;
    this.#line.end(code);
  }

  terminate(): void {
    this.close(TERMINATED);
  }

  /** There is nobody at the other end any more. */
  over(code: number): void {
    this.readyState = 3;
    this.emit('close', code);
  }
}

let scratch = Buffer.allocUnsafe(1 << 16);

/** The parts one after the other, until the next call. */
function joined(parts: readonly Buffer[]): Buffer {
  if (parts.length === 1) return parts[0]!;
  const bytes = parts.reduce((sum, { length }) => sum + length, 0);
  if (bytes > scratch.length) scratch = Buffer.allocUnsafe(2 * bytes);
  let at = 0;
  for (const part of parts) at += part.copy(scratch, at);
  return scratch.subarray(0, bytes);
}

/** When a line of so many bytes a second is free again. */
class Pipe {
  readonly #rate: number;
  #freeMs = 0;

  constructor(rate: number) {
    this.#rate = rate;
  }

  /** The moment at which the last of these bytes is through. */
  through(bytes: number, fromMs: number): number {
    this.#freeMs = Math.max(this.#freeMs, fromMs) + (1000 * bytes) / this.#rate;
    return this.#freeMs;
  }
}

interface Ends {
  readonly clock: VirtualClock;
  readonly options: NetworkOptions;
  readonly worker: WorkerLine;
  readonly relay: SimulatedRelay;
  readonly client: Socket;
  readonly tap: Tap;
  /** Which connection of the network it is. */
  readonly number: number;
}

/** One connection. What is sent first arrives first, in each direction. */
class Line {
  readonly #ends: Ends;
  readonly #latencyMs: number;
  #server: ServerEnd | undefined;
  #draws = 0;
  #upMs = 0;
  #downMs = 0;
  #isOver = false;

  constructor(ends: Ends) {
    this.#ends = ends;
    const [least, most] = ends.options.latencyMs;
    this.#latencyMs = least + (most - least) * this.#draw();
    const { clock } = ends;
    clock.at(clock.now() + 3 * this.#latencyMs, () => this.#open());
  }

  up(text: string): void {
    const bytes = Buffer.from(text);
    const { clock, worker, options } = this.#ends;
    worker.traffic.bytesUp += bytes.length;
    worker.traffic.framesUp++;
    const sentMs = worker.up.through(bytes.length, clock.now());
    this.#upMs = this.#moment(Math.max(this.#upMs, sentMs + this.#delay(options.loss)));
    clock.at(this.#upMs, () => {
      if (this.#server?.readyState !== 1) return;
      this.#server.bytesRead += bytes.length;
      this.#server.emit('message', bytes, false);
    });
  }

  down(parts: readonly Buffer[], bytes: number, left: () => void): void {
    const { clock, worker, relay, options } = this.#ends;
    const leftMs = this.#moment(relay.line.through(bytes, clock.now()));
    clock.at(leftMs, left);
    const hereMs = worker.down.through(bytes, leftMs + this.#delay(options.loss));
    this.#downMs = this.#moment(Math.max(this.#downMs, hereMs));
    relay.bytesDown += bytes;
    clock.at(this.#downMs, () => this.#hand(parts));
  }

  /** This worker hangs up: what it sent before arrives first. */
  hangUp(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { clock, client } = this.#ends;
    const atMs = this.#moment(Math.max(this.#upMs, clock.now() + this.#latencyMs));
    clock.at(atMs, () => this.#server?.over(NORMAL));
    clock.at(atMs + this.#latencyMs, () => client.onclose?.(NORMAL, ''));
  }

  /** The relay hangs up: this worker hears of it when all that it was sent is there. */
  end(code: number): void {
    const { clock, client } = this.#ends;
    if (this.#server) clock.at(clock.now(), () => this.#server!.over(code));
    const atMs = this.#moment(Math.max(this.#downMs, clock.now() + this.#latencyMs));
    clock.at(atMs, () => {
      if (this.#isOver) return;
      this.#isOver = true;
      client.onclose?.(code, '');
    });
  }

  #open(): void {
    if (this.#isOver) return;
    const { relay, worker, number, client } = this.#ends;
    this.#server = new ServerEnd(this);
    relay.welcome(this.#server, worker.address, number);
    client.onopen?.();
  }

  #hand(parts: readonly Buffer[]): void {
    if (this.#isOver) return;
    const { client, worker } = this.#ends;
    const data = joined(parts);
    worker.traffic.bytesDown += data.length;
    for (let at = 0; at < data.length; ) {
      const short = data[at + 1]!;
      const head = short < 126 ? 2 : short === 126 ? 4 : 10;
      const from = at + head;
      const length =
        head === 2 ? short : head === 4 ? data.readUInt16BE(at + 2) : data.readUInt32BE(at + 6);
      worker.traffic.framesDown++;
      const text = data.toString('utf8', from, from + length);
      this.#ends.tap.got(worker.index, text, length);
      client.onmessage?.(text, length);
      at = from + length;
    }
  }

  #delay(loss: number): number {
    const isLost = loss > 0 && this.#draw() < loss;
    return this.#latencyMs + (isLost ? REPEATED_MS + 2 * this.#latencyMs : 0);
  }

  #moment(ms: number): number {
    return Math.ceil(ms / MOMENT_MS) * MOMENT_MS;
  }

  #draw(): number {
    const { options, number } = this.#ends;
    return unit(philox([options.seed, number], this.#draws++, 0, 0, 0)[0]);
  }
}

interface WorkerLine {
  readonly index: number;
  readonly address: string;
  readonly traffic: Traffic;
  readonly up: Pipe;
  readonly down: Pipe;
}

/** A real relay that listens to no port. */
export class SimulatedRelay {
  readonly url: string;
  readonly core: Core;
  readonly line: Pipe;
  bytesDown = 0;
  /** Connections at the same time. */
  mostConnections = 0;

  constructor(url: string, options: CoreOptions, rate: number) {
    const limits = limitsOf(options);
    this.url = url;
    this.core = createCore(options, limits, new Store(limits), undefined);
    this.line = new Pipe(rate);
  }

  /** Shuts the door on one connection too many. */
  welcome(end: ServerEnd, address: string, number: number): void {
    const { core } = this;
    const isFull = core.sessions.size >= core.limits.maxConnections;
    if (isFull || !core.connections.takes(address, core.nowMs())) {
      core.counts.connectionsRefused++;
      end.terminate();
      return;
    }
    core.counts.connectionsTotal++;
    const account = { used: 0, subscribed: 0 };
    const origin = { number, address, isNear: false, account, hosts: new Set([hostOf(this.url)!]) };
    // as far as a session looks at its socket
    core.sessions.add(new Session(core, end as never, end as never, origin));
    this.mostConnections = Math.max(this.mostConnections, core.sessions.size);
  }
}

export class Network {
  readonly relays: readonly SimulatedRelay[];
  readonly #clock: VirtualClock;
  readonly #options: NetworkOptions;
  readonly #lines = new Map<number, WorkerLine>();
  readonly #tap: Tap;
  #connections = 0;

  constructor(
    clock: VirtualClock,
    relays: readonly CoreOptions[],
    options: NetworkOptions,
    tap: Tap,
  ) {
    this.#clock = clock;
    this.#options = options;
    this.#tap = tap;
    this.relays = relays.map((relay, i) => {
      const url = `wss://relay${i}.example`;
      const core = { ...relay, publicUrl: url, nowMs: () => clock.now() };
      return new SimulatedRelay(url, core, options.relayRate);
    });
  }

  get urls(): readonly string[] {
    return this.relays.map(({ url }) => url);
  }

  trafficOf(worker: number): Traffic {
    return this.#lineOf(worker).traffic;
  }

  /** How this worker opens its connections; it keeps its address and its line. */
  openSocketOf(index: number): OpenSocket {
    const worker = this.#lineOf(index);
    const [clock, options, tap] = [this.#clock, this.#options, this.#tap];
    return (url) => {
      const relay = this.relays.find((one) => url.startsWith(one.url));
      if (!relay) throw new Error(`there is no relay ${url}`);
      const client: Socket = {
        bufferedAmount: 0,
        onopen: undefined,
        onmessage: undefined,
        onerror: undefined,
        onclose: undefined,
        send: (text) => {
          tap.sent(index, text, text.length);
          line.up(text);
        },
        close: () => line.hangUp(),
      };
      const number = this.#connections++;
      const line = new Line({ clock, options, tap, worker, relay, client, number });
      return client;
    };
  }

  #lineOf(index: number): WorkerLine {
    const known = this.#lines.get(index);
    if (known) return known;
    const { upRate, downRate } = this.#options;
    const line: WorkerLine = {
      ...{ index, address: `198.18.${index >> 8}.${index & 255}` },
      traffic: { bytesUp: 0, bytesDown: 0, framesUp: 0, framesDown: 0 },
      ...{ up: new Pipe(upRate), down: new Pipe(downRate) },
    };
    this.#lines.set(index, line);
    return line;
  }
}
