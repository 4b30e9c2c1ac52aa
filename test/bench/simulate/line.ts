/**
 * One connection of the in-memory network, between a worker's socket and a relay's session: latency, bandwidth of both
 * lines, and lost packets as the time to repeat them.
 */
import { EventEmitter } from 'node:events';
import { philox, unit } from 'nostrain/base';
import type { Socket } from 'nostrain/network';
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

/** What stands between workers and relays, each by its number; it may change at any time. */
export interface Weather {
  /** Reports whether the two can talk; `Network.recheck` ends the connections of those that no longer can. */
  reaches(worker: number, relay: number): boolean;
  /** Reports whether frames pass in this direction; others are lost without a word. */
  passes(worker: number, relay: number, way: 'up' | 'down'): boolean;
  /** Returns the delay of a frame beyond the latency of its line, in milliseconds. */
  slowedMs(worker: number, relay: number): number;
  /** Returns what arrives at the worker in place of a frame. */
  arriving(text: string, worker: number, relay: number): string;
}

export const fairWeather: Weather = {
  reaches: () => true,
  passes: () => true,
  slowedMs: () => 0,
  arriving: (text) => text,
};

/** Moments are so far apart: what arrives within one arrives together. */
const MOMENT_MS = 20;
const REPEATED_MS = 250;
const [TERMINATED, NORMAL] = [1006, 1000] as const;
const OPEN = 1;

/** The end of a connection that a relay's session holds, as `ws` and the socket under it. */
export class ServerEnd extends EventEmitter {
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
export class Pipe {
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

/** The relay's end of all its connections. */
interface RelayEnd {
  readonly index: number;
  readonly url: string;
  readonly line: Pipe;
  bytesDown: number;
  welcome(end: ServerEnd, address: string, number: number): void;
}

interface Ends {
  readonly clock: VirtualClock;
  readonly options: NetworkOptions;
  readonly worker: WorkerLine;
  readonly relay: RelayEnd;
  readonly client: Socket;
  readonly tap: Tap;
  readonly weather: Weather;
  /** Which connection of the network it is. */
  readonly number: number;
  /** Called once the connection is over. */
  onEnd(): void;
}

/** One connection. What is sent first arrives first, in each direction. */
export class Line {
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
      if (this.#server?.readyState !== OPEN || !this.#passes('up')) return;
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
    if (!this.#finish()) return;
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
      if (this.#finish()) client.onclose?.(code, '');
    });
  }

  /** Ends the connection at once, on both sides, as when a process dies: what the worker sent still arrives. */
  cut(): void {
    if (!this.#finish()) return;
    const { clock, client } = this.#ends;
    clock.at(Math.max(this.#upMs, clock.now()), () => this.#server?.over(TERMINATED));
    clock.at(clock.now(), () => client.onclose?.(TERMINATED, ''));
  }

  get isReaching(): boolean {
    const { weather, worker, relay } = this.#ends;
    return weather.reaches(worker.index, relay.index);
  }

  #passes(way: 'up' | 'down'): boolean {
    const { weather, worker, relay } = this.#ends;
    return weather.passes(worker.index, relay.index, way);
  }

  /** Returns false if the connection was over before. */
  #finish(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#ends.onEnd();
    return true;
  }

  #open(): void {
    if (this.#isOver) return;
    const { relay, worker, number, client } = this.#ends;
    if (!this.isReaching) {
      client.onerror?.(`no connection to ${relay.url}`);
      this.cut();
      return;
    }
    this.#server = new ServerEnd(this);
    relay.welcome(this.#server, worker.address, number);
    client.onopen?.();
  }

  #hand(parts: readonly Buffer[]): void {
    if (this.#isOver || !this.#passes('down')) return;
    const { client, worker, relay, weather } = this.#ends;
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
      client.onmessage?.(weather.arriving(text, worker.index, relay.index), length);
      at = from + length;
    }
  }

  #delay(loss: number): number {
    const isLost = loss > 0 && this.#draw() < loss;
    const { weather, worker, relay } = this.#ends;
    const slowedMs = weather.slowedMs(worker.index, relay.index);
    return this.#latencyMs + slowedMs + (isLost ? REPEATED_MS + 2 * this.#latencyMs : 0);
  }

  #moment(ms: number): number {
    return Math.ceil(ms / MOMENT_MS) * MOMENT_MS;
  }

  #draw(): number {
    const { options, number } = this.#ends;
    return unit(philox([options.seed, number], this.#draws++, 0, 0, 0)[0]);
  }
}

/** A worker's end of all its connections. */
export interface WorkerLine {
  readonly index: number;
  readonly address: string;
  readonly traffic: Traffic;
  readonly up: Pipe;
  readonly down: Pipe;
}
