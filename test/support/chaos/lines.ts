/** Lines between workers and relays: real sockets whose messages take a time of the run's clock, and that can be cut, per worker and per relay. */
import type { Clock } from 'nostrain/base';
import type { OpenSocket, SignedEvent, Socket } from 'nostrain/network';
import { openSocket } from 'nostrain/node';

export interface Lines {
  /** Frames that left or arrived so far. */
  readonly count: () => number;
  readonly opening: () => number;
  /** Every event that anybody sent, by id, whether a relay took it or not. */
  readonly said: ReadonlyMap<string, SignedEvent>;
  /** Connections of one process; `cut` ends them all, and nothing is opened any more. */
  plug(worker: number, clock: Clock): { readonly openSocket: OpenSocket; cut(): void };
  /** Ends every connection to a relay; while it is dead new ones are refused. */
  cutRelay(url: string): void;
  setDead(url: string, isDead: boolean): void;
}

/** Nobody listens there. */
const REFUSED = 'ws://127.0.0.1:1';
/** One way, by worker and relay. */
const latencyMs = (worker: number, relay: number): number => 50 * (1 + ((worker + 2 * relay) % 4));

interface Line {
  readonly url: string;
  readonly near: Socket;
  readonly far: Socket;
}

/** Relays have names that are the same in every run; where each listens is said here. */
export function createLines(places: ReadonlyMap<string, string>): Lines {
  const urls = [...places.keys()];
  let frames = 0;
  let opening = 0;
  const lines = new Set<Line>();
  const dead = new Set<string>();
  const said = new Map<string, SignedEvent>();
  function note(text: string): void {
    if (!text.startsWith('["EVENT",')) return;
    const [, event] = JSON.parse(text) as [string, SignedEvent];
    said.set(event.id, event);
  }
  function open(url: string, worker: number, clock: Clock): Line {
    const far = openSocket((dead.has(url) ? undefined : places.get(url)) ?? REFUSED);
    const ms = latencyMs(worker, urls.indexOf(url));
    const out = delayed(clock, ms);
    const back = delayed(clock, ms);
    let isOpening = true;
    opening++;
    const opened = () => {
      if (isOpening) opening--;
      isOpening = false;
      frames++;
    };
    const near: Socket = {
      get bufferedAmount() {
        return far.bufferedAmount;
      },
      onopen: undefined,
      onmessage: undefined,
      onerror: undefined,
      onclose: undefined,
      send(text) {
        note(text);
        out(() => {
          frames++;
          if (lines.has(line)) far.send(text);
        });
      },
      close: () => end(line, 1000, ''),
    };
    const line: Line = { url, near, far };
    lines.add(line);
    far.onopen = () => {
      opened();
      back(() => near.onopen?.());
    };
    far.onmessage = (text, bytes) => {
      frames++;
      back(() => lines.has(line) && near.onmessage?.(text, bytes));
    };
    far.onerror = (message) => near.onerror?.(message);
    far.onclose = (code, reason) => {
      opened();
      back(() => end(line, code, reason));
    };
    return line;
  }
  function end(line: Line, code: number, reason: string): void {
    if (!lines.delete(line)) return;
    frames++;
    line.far.close();
    line.near.onclose?.(code, reason);
  }
  return {
    count: () => frames,
    opening: () => opening,
    said,
    plug(worker, clock) {
      const own = new Set<Line>();
      let isCut = false;
      return {
        openSocket(url) {
          if (isCut) return nothing();
          const line = open(url, worker, clock);
          own.add(line);
          return line.near;
        },
        cut() {
          isCut = true;
          for (const line of own) end(line, 1006, 'killed');
        },
      };
    },
    cutRelay(url) {
      for (const line of [...lines]) if (line.url === url) end(line, 1006, 'gone');
    },
    setDead(url, isDead) {
      if (isDead) dead.add(url);
      else dead.delete(url);
    },
  };
}

/** Does things so much later, in order; those of one moment wait together. */
function delayed(clock: Clock, ms: number): (act: () => unknown) => void {
  let waiting: (() => unknown)[] = [];
  let atMs = -1;
  return (act) => {
    if (atMs === clock.now()) {
      waiting.push(act);
      return;
    }
    atMs = clock.now();
    const now = [act];
    waiting = now;
    void clock.sleep(ms).then(() => {
      for (const each of now) each();
    });
  };
}

/** The socket of a process that is gone. */
function nothing(): Socket {
  return {
    bufferedAmount: 0,
    onopen: undefined,
    onmessage: undefined,
    onerror: undefined,
    onclose: undefined,
    send: () => undefined,
    close: () => undefined,
  };
}
