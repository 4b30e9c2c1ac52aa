/**
 * Chaos: a certified run of real workers over real relays in which, every round, 30 % of the workers are killed at a random moment and come
 * back later with nothing but their disk, and one relay lies, forgets everything or is dead, another one each round. All from one seed.
 */
import { deriveKey, philox, unit } from 'nostrain/base';
import type { Entry, RunEvent } from 'nostrain/certified';
import type { CertifiedState } from 'nostrain/certified/parts';
import { createRelaySet, type RelaySet, type SignedEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import type { RunSpec } from 'nostrain/run';
import type { Trainer } from 'nostrain/worker';
import {
  type CertifiedMember,
  certifiedSpec,
  type Disk,
  startCertified,
} from '../certified-swarm.ts';
import { arithmeticTrainer, smallLayout as layout } from '../swarm.ts';
import { createJumpClock, type JumpClock } from './jump-clock.ts';
import { createLines } from './lines.ts';
import { type ChaosRelay, createChaosRelay, type Harm, harms } from './relays.ts';

export interface ChaosOptions {
  readonly rounds: number;
  readonly seed: number;
  /** The same run without any of it. */
  readonly isQuiet?: boolean;
  readonly workers?: number;
  readonly relays?: number;
  /** Share of the workers killed in each round. */
  readonly killed?: number;
  /** How long a killed worker is away, in seconds: any time between the two. */
  readonly away?: readonly [number, number];
  readonly timing?: Readonly<Record<string, number>>;
  /** Harm that relays do; default all kinds. */
  readonly harms?: readonly Harm[];
  onRound?(round: Ended): void;
  onNote?(text: string): void;
}

/** When the first worker knew the end of a round, and how it ended. */
export interface Ended {
  readonly round: number;
  readonly result: 'final' | 'void';
  readonly view: number;
  readonly attempt: number;
  readonly accepted: number;
  /** Since the end of the round before. */
  readonly seconds: number;
}

/** What one worker learned, by the states it saved, and what it still has to send. */
export interface Ledger {
  readonly index: number;
  /** Roots that its sessions reported, by round. */
  readonly roots: ReadonlyMap<number, string>;
  readonly events: readonly RunEvent[];
  readonly final: CertifiedState;
  /** Sum of all that inner steps changed and that reached its disk. */
  readonly learned: Float64Array;
}

export interface Played {
  readonly spec: RunSpec;
  readonly rounds: readonly Ended[];
  readonly workers: readonly Ledger[];
  readonly kills: number;
  readonly harmed: Readonly<Record<Harm, number>>;
  readonly forgotten: number;
  /** Everything that anybody ever sent. */
  readonly said: readonly SignedEvent[];
  /** What a relay set of somebody who was not there gets; it moves the clock. */
  ask<T>(question: (relays: RelaySet, clock: JumpClock) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** Inner steps of a round, in seconds of the run's clock. */
const TRAIN_SECONDS = 60;
const STEP_MS = 500;
/** So long without the end of a round is a run that hangs. */
const PATIENCE_MS = 4 * 3600_000;

export async function playChaos(options: ChaosOptions): Promise<Played> {
  const run = new ChaosRun(options);
  try {
    await run.open();
    await run.play();
    return run.result();
  } catch (error) {
    await run.close();
    throw error;
  }
}

interface Process {
  readonly member: CertifiedMember;
  cut(): void;
}

interface Worker {
  readonly index: number;
  readonly disk: RecordingDisk;
  readonly events: RunEvent[];
  readonly learned: Float64Array;
  /** Undefined while it is away. */
  process: Process | undefined;
  read: number;
  sessions: number;
}

type Moment = 'now' | 'before-write' | 'after-write';

/** A disk on which a process can die in the middle of a write. */
class RecordingDisk implements Disk {
  state: CertifiedState | undefined;
  onWrite: ((isDone: boolean) => void) | undefined;
  isDead = false;
  #entry: Entry | undefined;

  get entry(): Entry | undefined {
    return this.#entry;
  }

  set entry(entry: Entry | undefined) {
    this.onWrite?.(false);
    if (this.isDead) return;
    this.#entry = entry;
    this.onWrite?.(true);
  }
}

class ChaosRun {
  readonly #options: ChaosOptions;
  readonly #spec: RunSpec;
  readonly #workers: Worker[] = [];
  readonly #ended: Ended[] = [];
  readonly #harmed: Record<Harm, number> = { lying: 0, deleting: 0, dead: 0 };
  #relays: ChaosRelay[] = [];
  #lines = createLines(new Map());
  #clock!: JumpClock;
  #sick: ChaosRelay | undefined;
  #endedMs = 0;
  #kills = 0;
  #forgotten = 0;
  #draws = 0;

  constructor(options: ChaosOptions) {
    const { workers = 8, rounds, timing } = options;
    this.#options = options;
    this.#spec = certifiedSpec({
      founders: Array.from({ length: workers }, (_, index) => index),
      rounds,
      timing: {
        ...{ graceMinMs: 5000, graceMaxMs: 180_000, deadlineC: 4 },
        ...{ viewMs: 10_000, voidView: 4, recoveryMs: 600_000, ...timing },
      },
    });
  }

  async open(): Promise<void> {
    const { relays = 3, seed, workers = 8 } = this.#options;
    const now = () => this.#clock.now();
    this.#clock = createJumpClock({
      count: () => this.#lines.count() + this.#relays.reduce((sum, one) => sum + one.traffic(), 0),
      opening: () => this.#lines.opening(),
    });
    for (let i = 0; i < relays; i++) {
      this.#relays.push(await createChaosRelay(`relay-${i}`, seed + i, now));
    }
    this.#lines = createLines(new Map(this.#relays.map(({ url, address }) => [url, address])));
    this.#endedMs = now();
    for (let index = 0; index < workers; index++) {
      const learned = new Float64Array(layout.size);
      const disk = new RecordingDisk();
      const worker: Worker = {
        ...{ index, disk, learned, events: [], process: undefined, read: 0, sessions: 0 },
      };
      this.#workers.push(worker);
      this.#start(worker);
    }
  }

  /** In (0, 1), from the seed. */
  #draw(): number {
    return unit(philox(deriveKey('chaos', this.#options.seed), this.#draws++, 0, 0, 0)[0]);
  }

  #start(worker: Worker): void {
    const { index, disk, learned } = worker;
    const clock = this.#clock;
    const plug = this.#lines.plug(index, clock);
    const urls = this.#relays.map(({ url }) => url);
    disk.isDead = false;
    disk.onWrite = undefined;
    const relays = createRelaySet(urls, {
      ...{ openSocket: plug.openSocket, clock, crypto: nativeCrypto },
      random: streamOf(`jitter:${this.#options.seed}:${index}:${worker.sessions++}`),
    });
    let saved = disk.state;
    const member = startCertified({
      ...{ index, relays, spec: this.#spec, clock, disk, layout },
      plan: { roundTimeoutMs: this.#spec.timing.graceMaxMs },
      trainer: unevenTrainer(index, clock),
      onSave(state) {
        if (state.sent && state.sent.event.id !== saved?.sent?.event.id) {
          const before = saved?.residual;
          state.unpacked!.forEach((value, i) => {
            learned[i]! += value - (before?.[i] ?? 0);
          });
        }
        saved = state;
      },
    });
    worker.read = 0;
    worker.process = { member, cut: plug.cut };
    member.finished.catch((error: unknown) => {
      if (worker.process?.member === member) this.#fail(index, error);
    });
  }

  #failure: Error | undefined;

  #fail(index: number, cause: unknown): void {
    this.#failure ??= new Error(`worker ${index} failed: ${String(cause)}`, { cause });
  }

  #kill(worker: Worker): void {
    const { process, disk } = worker;
    if (!process) return;
    this.#read(worker);
    worker.process = undefined;
    disk.isDead = true;
    process.cut();
    process.member.stop();
    this.#kills++;
  }

  async play(): Promise<void> {
    const { rounds } = this.#spec.training;
    this.#beginRound(0);
    while (!this.#isOver()) {
      await this.#clock.advance(STEP_MS);
      if (this.#failure) throw this.#failure;
      for (const worker of this.#workers) this.#read(worker);
      if (this.#clock.now() - this.#endedMs > PATIENCE_MS) throw this.#hangs();
    }
    this.#options.onNote?.(`over after ${rounds} rounds`);
  }

  #hangs(): Error {
    const where = this.#workers.map(
      ({ disk, process }) => `${disk.state?.round ?? 0}${process ? '' : ' (away)'}`,
    );
    return new Error(`no round ended for ${PATIENCE_MS / 60_000} minutes; workers are in ${where}`);
  }

  #isOver(): boolean {
    const { rounds } = this.#spec.training;
    return this.#workers.every(({ disk, process }) => process && disk.state?.round === rounds);
  }

  /** What its session has said since the last look. */
  #read(worker: Worker): void {
    const { process, events } = worker;
    if (!process) return;
    const said = process.member.events;
    for (; worker.read < said.length; worker.read++) {
      const event = said[worker.read]!;
      events.push(event);
      if (event.type === 'round' && event.index === this.#ended.length) this.#note(event);
    }
  }

  #note(event: Extract<RunEvent, { type: 'round' }>): void {
    const nowMs = this.#clock.now();
    const { result, view, attempt } = event.certified!;
    const ended: Ended = {
      ...{ round: event.index, result, view, attempt },
      accepted: event.accepted.length,
      seconds: (nowMs - this.#endedMs) / 1000,
    };
    this.#endedMs = nowMs;
    this.#ended.push(ended);
    this.#options.onRound?.(ended);
    this.#beginRound(event.index + 1);
  }

  #beginRound(round: number): void {
    this.#heal();
    if (this.#options.isQuiet || round >= this.#spec.training.rounds) return;
    this.#harm(round);
    this.#plan();
  }

  #heal(): void {
    const sick = this.#sick;
    if (!sick) return;
    this.#sick = undefined;
    sick.lie(false);
    this.#lines.setDead(sick.url, false);
    this.#lines.cutRelay(sick.url);
  }

  /** Another relay than in the round before, with one of the harms. */
  #harm(round: number): void {
    const { harms: kinds = harms } = this.#options;
    const relay = this.#relays[round % this.#relays.length]!;
    const harm = kinds[Math.floor(this.#draw() * kinds.length)]!;
    this.#options.onNote?.(`round ${round}: relay ${round % this.#relays.length} is ${harm}`);
    this.#harmed[harm]++;
    this.#sick = relay;
    if (harm === 'lying') relay.lie(true);
    else if (harm === 'dead') this.#lines.setDead(relay.url, true);
    else {
      this.#after(0, () => this.#forget(relay));
      this.#after(TRAIN_SECONDS * this.#draw(), () => this.#forget(relay));
    }
    this.#lines.cutRelay(relay.url);
  }

  async #forget(relay: ChaosRelay): Promise<void> {
    this.#forgotten += await relay.forget(this.#workers.length);
  }

  /** Whom this round kills, when, and when they come back. */
  #plan(): void {
    const { killed = 0.3, away: [least, most] = [5, 60] } = this.#options;
    const expected = killed * this.#workers.length;
    const count = Math.floor(expected) + (this.#draw() < expected % 1 ? 1 : 0);
    const left = this.#workers.filter(({ process }) => process);
    for (let i = 0; i < count && left.length > 0; i++) {
      const [worker] = left.splice(Math.floor(this.#draw() * left.length), 1) as [Worker];
      const seconds = TRAIN_SECONDS * 1.1 * this.#draw();
      const moment = (['now', 'before-write', 'after-write'] as const)[
        Math.floor(3 * this.#draw())
      ]!;
      const awaySeconds = least + (most - least) * this.#draw();
      this.#after(seconds, () => this.#arm(worker, moment, awaySeconds));
    }
  }

  /** Kills it now, or in the middle of what it next signs. */
  #arm(worker: Worker, moment: Moment, awaySeconds: number): void {
    const { process, index } = worker;
    const die = () => {
      if (!process || worker.process !== process) return;
      this.#options.onNote?.(`worker ${index} dies (${moment}) for ${awaySeconds.toFixed(0)} s`);
      this.#kill(worker);
      this.#after(awaySeconds, () => this.#start(worker));
    };
    if (moment === 'now') die();
    else {
      worker.disk.onWrite = (isDone) => {
        if (isDone === (moment === 'after-write')) die();
      };
    }
  }

  #after(seconds: number, act: () => unknown): void {
    void this.#clock
      .sleep(1000 * seconds)
      .then(act)
      .catch((error: unknown) => this.#fail(-1, error));
  }

  result(): Played {
    const { rounds } = this.#spec.training;
    return {
      spec: this.#spec,
      rounds: this.#ended.slice(0, rounds),
      kills: this.#kills,
      harmed: this.#harmed,
      forgotten: this.#forgotten,
      said: [...this.#lines.said.values()],
      workers: this.#workers.map(({ index, events, learned, disk }) => ({
        ...{ index, events, learned, final: disk.state!, roots: rootsIn(events) },
      })),
      ask: (question) => this.#ask(question),
      close: () => this.close(),
    };
  }

  async #ask<T>(question: (relays: RelaySet, clock: JumpClock) => Promise<T>): Promise<T> {
    const clock = this.#clock;
    const { openSocket } = this.#lines.plug(this.#workers.length, clock);
    const urls = this.#relays.map(({ url }) => url);
    const relays = createRelaySet(urls, { openSocket, clock, crypto: nativeCrypto });
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    const answer = relays.ready().then(() => question(relays, clock));
    answer.then(end, end);
    for (let ms = 0; !isOver && ms < PATIENCE_MS; ms += STEP_MS) await clock.advance(STEP_MS);
    const value = await answer;
    void relays.close();
    await clock.advance(2000);
    return value;
  }

  async close(): Promise<void> {
    for (const { process } of this.#workers) {
      process?.cut();
      process?.member.stop();
    }
    for (const relay of this.#relays) await relay.close();
  }
}

const rootsIn = (events: readonly RunEvent[]): ReadonlyMap<number, string> =>
  new Map(
    events.flatMap((event) =>
      event.type === 'round' ? [[event.index, event.certified!.root] as const] : [],
    ),
  );

function streamOf(name: string): () => number {
  const key = deriveKey(name);
  let count = 0;
  return () => unit(philox(key, count++, 0, 0, 0)[0]);
}

/** Machines differ by a tenth. */
function unevenTrainer(index: number, clock: JumpClock): Trainer {
  const inner = arithmeticTrainer(index, layout, { clock, trainMs: 0 });
  return {
    ...inner,
    async train(task, onProgress, signal) {
      const share = unit(philox(deriveKey('pace', index), task.round, 0, 0, 0)[0]);
      await clock.sleep(1000 * TRAIN_SECONDS * (0.95 + 0.1 * share), signal);
      return inner.train(task, onProgress, signal);
    },
  };
}
