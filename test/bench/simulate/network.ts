/**
 * An in-memory network between the sockets of workers and the sessions of relays: latency and lines of so many bytes a second
 * on both ends, lost packets as the wait for their repetition. Both ends are the real ones, and what passes is counted.
 */
import type { OpenSocket, Socket } from 'nostrain/network';
import { type CoreOptions, createCore, limitsOf, Store } from 'nostrain/relay';
import type { Core } from '../../../relay/core.ts';
import type { SetTimer } from '../../../relay/faults/adversary.ts';
import { hostOf, Session } from '../../../relay/session.ts';
import {
  fairWeather,
  Line,
  type NetworkOptions,
  Pipe,
  type ServerEnd,
  type Tap,
  type Traffic,
  type Weather,
  type WorkerLine,
} from './line.ts';
import type { VirtualClock } from './virtual-clock.ts';

/** A real relay that listens to no port. */
export class SimulatedRelay {
  readonly index: number;
  readonly url: string;
  readonly line: Pipe;
  bytesDown = 0;
  /** Connections at the same time. */
  mostConnections = 0;
  readonly #options: CoreOptions;
  #core: Core;

  constructor(index: number, options: CoreOptions, rate: number) {
    this.index = index;
    this.url = options.publicUrl!;
    this.#options = options;
    this.#core = this.#empty();
    this.line = new Pipe(rate);
  }

  get core(): Core {
    return this.#core;
  }

  /** Loses all events, as a relay that was set up anew; its connections end. */
  forget(): void {
    for (const session of [...this.#core.sessions]) session.terminate();
    this.#core = this.#empty();
  }

  #empty(): Core {
    const limits = limitsOf(this.#options);
    return createCore(this.#options, limits, new Store(limits), undefined);
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
  readonly #weather: Weather;
  readonly #open = new Set<Line>();
  #connections = 0;

  constructor(
    clock: VirtualClock,
    relays: readonly CoreOptions[],
    options: NetworkOptions,
    tap: Tap,
    weather = fairWeather,
  ) {
    this.#clock = clock;
    this.#options = options;
    this.#tap = tap;
    this.#weather = weather;
    const setTimer: SetTimer = (call, ms) => {
      const due = clock.at(clock.now() + ms, call);
      return () => {
        due.call = undefined;
      };
    };
    this.relays = relays.map((relay, i) => {
      const publicUrl = `wss://relay${i}.example`;
      const core = { nowMs: () => clock.now(), setTimer, ...relay, publicUrl };
      return new SimulatedRelay(i, core, options.relayRate);
    });
  }

  /** Ends connections between workers and relays that do not reach each other. */
  recheck(): void {
    for (const line of [...this.#open]) if (!line.isReaching) line.cut();
  }

  get urls(): readonly string[] {
    return this.relays.map(({ url }) => url);
  }

  trafficOf(worker: number): Traffic {
    return this.#lineOf(worker).traffic;
  }

  /** How a process of this worker opens its connections; the worker keeps its address and its line. */
  openSocketOf(index: number): OpenSocket {
    return this.plug(index).openSocket;
  }

  /** Like `openSocketOf`; `cut` ends all connections of the process, which opens none afterwards. */
  plug(index: number): { readonly openSocket: OpenSocket; cut(): void } {
    const worker = this.#lineOf(index);
    const [clock, options, tap, weather] = [this.#clock, this.#options, this.#tap, this.#weather];
    const own = new Set<Line>();
    let isCut = false;
    const openSocket: OpenSocket = (url) => {
      const relay = this.relays.find((one) => url.startsWith(one.url));
      if (!relay) throw new Error(`there is no relay ${url}`);
      const client: Socket = {
        bufferedAmount: 0,
        onopen: undefined,
        onmessage: undefined,
        onerror: undefined,
        onclose: undefined,
        send: (text) => {
          if (isCut) return;
          tap.sent(index, text, text.length);
          line?.up(text);
        },
        close: () => line?.hangUp(),
      };
      const number = this.#connections++;
      const onEnd = () => {
        own.delete(line!);
        this.#open.delete(line!);
      };
      const line = isCut
        ? undefined
        : new Line({ clock, options, tap, weather, worker, relay, client, number, onEnd });
      if (line) for (const lines of [own, this.#open]) lines.add(line);
      return client;
    };
    const cut = () => {
      isCut = true;
      for (const line of [...own]) line.cut();
    };
    return { openSocket, cut };
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
