/** Records what workers of a world saved, reported and sent, and hashes all frames in order. */
import type { RunEvent } from 'nostrain/certified';
import { type ProtocolMessage, toProtocolMessage } from 'nostrain/certified/parts';
import { apartIn, type SignedEvent } from 'nostrain/network';
import type { Outcome, RunSpec } from 'nostrain/run';
import type { Tap } from '../bench/simulate/line.ts';
import type { World } from './world.ts';

/** A worker's state after a round. */
export interface Saved {
  /** Seconds since the beginning. */
  readonly seconds: number;
  readonly worker: number;
  /** Rounds that are over. */
  readonly round: number;
  /** Digest of the outcome of the last of them; in a plain run that of the model. */
  readonly outcome: string;
  readonly model: string;
  /** Keys that broke the rules. */
  readonly ejected: readonly string[];
}

export interface Reported {
  readonly worker: number;
  readonly event: RunEvent;
}

/** A process that ended by itself before its run was over. */
export interface Failure {
  readonly worker: number;
  readonly message: string;
}

const EVENT = '["EVENT",';

export class Chronicle {
  readonly world: World;
  readonly spec: RunSpec;
  readonly saved: Saved[] = [];
  readonly reported: Reported[] = [];
  readonly failures: Failure[] = [];
  /** Workers that have finished the run. */
  readonly finished = new Set<number>();
  /** Outcomes that workers applied, by digest. */
  readonly outcomes = new Map<string, Outcome>();
  readonly notes: string[] = [];
  /** What events say, each parsed once for all workers. */
  readonly parsed = new Map<string, ProtocolMessage>();
  readonly #now: () => number;
  #trace = new Trace();
  #sent = new Map<string, string>();

  /** `now` returns the seconds since the beginning. */
  constructor(world: World, spec: RunSpec, now: () => number) {
    this.world = world;
    this.spec = spec;
    this.#now = now;
  }

  readonly tap: Tap = {
    sent: (worker, text) => {
      this.#trace.add(this.#now(), worker, text);
      if (text.startsWith(EVENT)) this.#sent.set(text, text);
    },
    got: (worker, text) => this.#trace.add(this.#now(), worker, text),
  };

  /** Parses a verified event like `toProtocolMessage`. */
  readonly read: typeof toProtocolMessage = (event, ...rest) => {
    const known = this.parsed.get(event.id);
    if (known) return known;
    const message = toProtocolMessage(event, ...rest);
    // a message in chunks is more than its event
    if (message && !apartIn(event)) this.parsed.set(event.id, message);
    return message;
  };

  saves(saved: Omit<Saved, 'seconds'>): void {
    const seconds = this.#now();
    this.#trace.add(seconds, saved.worker, saved.outcome);
    this.saved.push({ ...saved, seconds });
  }

  note(text: string): void {
    this.#trace.add(this.#now(), -1, text);
    this.notes.push(`${this.#now().toFixed(2)} s: ${text}`);
  }

  /** The events that workers sent, each once. */
  sent(): readonly SignedEvent[] {
    const events = new Map<string, SignedEvent>();
    for (const text of this.#sent.keys()) {
      const [, event] = JSON.parse(text) as [string, SignedEvent];
      events.set(event.id, event);
    }
    return [...events.values()];
  }

  get traceHash(): string {
    return this.#trace.hash;
  }
}

const PRIME = 0x01000193;

/** A hash over a sequence of texts. It detects differences between two runs; it is not cryptographic. */
class Trace {
  #a = 0x811c9dc5;
  #b = 0x9e3779b9;

  add(seconds: number, worker: number, text: string): void {
    let [a, b] = [this.#a, this.#b];
    a = Math.imul(a ^ Math.round(1000 * seconds), PRIME);
    b = Math.imul(b ^ worker ^ text.length, PRIME);
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      a = Math.imul(a ^ code, PRIME);
      b = Math.imul((b ^ code) + (b >>> 13), PRIME);
    }
    [this.#a, this.#b] = [a, b];
  }

  get hash(): string {
    return [this.#a, this.#b].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
  }
}
