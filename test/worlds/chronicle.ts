/** Records what workers of a world saved, reported and sent, and hashes all frames in order. */
import type { RunEvent } from 'nostrain/certified';
import { type ProtocolMessage, toProtocolMessage } from 'nostrain/certified/parts';
import { apartIn, type SignedEvent, verifyEvent } from 'nostrain/network';
import type { Outcome, RunSpec } from 'nostrain/run';
import { sentBefore, signedIn } from '../../src/certified/rounds/journal.ts';
import type { Tap } from '../bench/simulate/line.ts';
import { noFiles, type WorldDisk } from './disk.ts';
import { keyedCrypto } from './keyed-crypto.ts';
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
  /** Mean squared distance of the parameters to what training pulls them to. */
  readonly loss: number;
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

/** An event as a worker sent it for the first time. */
export interface Sent {
  readonly worker: number;
  readonly event: SignedEvent;
  /** The worker's disk had it as its own statement. */
  readonly isOnDisk: boolean;
  /** How often the disk had been lost. */
  readonly losses: number;
  /** Round that the worker played according to its disk. */
  readonly round: number;
}

/** What a worker's connections carried. */
export interface Carried {
  framesUp: number;
  framesDown: number;
  bytesUp: number;
  bytesDown: number;
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
  /** By worker. */
  readonly disks = new Map<number, WorldDisk>();
  readonly loads = new Map<number, Carried>();
  /** Events that a worker took for genuine although their author did not sign them. */
  readonly forged: SignedEvent[] = [];
  /** What events say, each parsed once for all workers. */
  readonly parsed = new Map<string, ProtocolMessage>();
  /** Returns the seconds since the beginning. */
  readonly seconds: () => number;
  #trace = new Trace();
  readonly #sent = new Map<string, Sent>();
  readonly #genuine = new Map<string, SignedEvent>();

  constructor(world: World, spec: RunSpec, seconds: () => number) {
    this.world = world;
    this.spec = spec;
    this.seconds = seconds;
  }

  readonly tap: Tap = {
    sent: (worker, text) => {
      this.#trace.add(this.seconds(), worker, text);
      const load = this.#loadOf(worker);
      load.framesUp++;
      load.bytesUp += text.length;
      if (text.startsWith(EVENT) && !this.#sent.has(text))
        this.#sent.set(text, this.#noteSent(worker, text));
    },
    got: (worker, text) => {
      this.#trace.add(this.seconds(), worker, text);
      const load = this.#loadOf(worker);
      load.framesDown++;
      load.bytesDown += text.length;
    },
  };

  #loadOf(worker: number): Carried {
    const load = this.loads.get(worker) ?? { framesUp: 0, framesDown: 0, bytesUp: 0, bytesDown: 0 };
    this.loads.set(worker, load);
    return load;
  }

  #noteSent(worker: number, text: string): Sent {
    const [, event] = JSON.parse(text) as [string, SignedEvent];
    // strangers have no disk
    const { files = noFiles, losses = 0 } = this.disks.get(worker) ?? {};
    const { entry, state } = files;
    const own = [...signedIn(entry), ...(state ? sentBefore(state) : [])];
    const isOnDisk = own.includes(event.id);
    const round = Math.max(entry?.round ?? 0, state?.round ?? 0);
    return { worker, event, isOnDisk, losses, round };
  }

  /** Parses a verified event like `toProtocolMessage`. */
  readonly read: typeof toProtocolMessage = (event, ...rest) => {
    this.#checkSignature(event);
    const known = this.parsed.get(event.id);
    if (known) return known;
    const message = toProtocolMessage(event, ...rest);
    // a message in chunks is more than its event
    if (message && !apartIn(event)) this.parsed.set(event.id, message);
    return message;
  };

  #checkSignature(event: SignedEvent): void {
    const known = this.#genuine.get(event.id);
    if (known && known.sig === event.sig && known.content === event.content) return;
    if (verifyEvent(event, keyedCrypto).ok) this.#genuine.set(event.id, event);
    else this.forged.push(event);
  }

  saves(saved: Omit<Saved, 'seconds'>): void {
    const seconds = this.seconds();
    this.#trace.add(seconds, saved.worker, saved.outcome);
    this.saved.push({ ...saved, seconds });
  }

  note(text: string): void {
    this.#trace.add(this.seconds(), -1, text);
    this.notes.push(`${this.seconds().toFixed(2)} s: ${text}`);
  }

  /** What workers sent, each event once. */
  sent(): readonly Sent[] {
    return [...new Map([...this.#sent.values()].map((sent) => [sent.event.id, sent])).values()];
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
