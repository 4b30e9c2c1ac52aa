/**
 * Plays a certified run of many workers in one process: their real worker loop, round machine, wire and transport over real relays, on a
 * clock that moves by itself and a network in memory. Only the training is drawn.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { philox, unit } from 'nostrain/base';
import { type CertifiedState, startOf } from 'nostrain/certified/parts';
import { createRelaySet, relaysOfKey, type SignedEvent } from 'nostrain/network';
import type { Untyped } from 'nostrain/run';
import type { Params } from 'nostrain/tensor';
import type { Trainer } from 'nostrain/worker';
import type { Limits } from '../../../relay/limits.ts';
import type { ProfileName } from '../../../relay/profiles.ts';
import { MOST_KEYS } from '../../../src/run/field.ts';
import {
  type CertifiedMember,
  certifiedSpec,
  type Disk,
  keyOf,
  startCertified,
} from '../../support/certified-swarm.ts';
import { drawnTrainer } from './drawn-trainer.ts';
import { createFolderJournal, type KeptJournal } from './folder-journal.ts';
import { idealGoodput, type Kill, type KilledRound, type LostTime, TimeBook } from './lost-time.ts';
import { Network, type SimulatedRelay } from './network.ts';
import {
  type Checks,
  chargedSeconds,
  countedApply,
  countedCrypto,
  countedRead,
  eventPool,
} from './shared-work.ts';
import { type Phases, type Sent, Tally } from './tally.ts';
import { VirtualClock } from './virtual-clock.ts';

export interface SimulationOptions {
  readonly workers: number;
  /** Workers that the spec names; the others join. */
  readonly founders: number;
  readonly relays: number;
  /** Relays that each worker reads; 0: all. */
  readonly copies: number;
  readonly rounds: number;
  readonly seed: number;
  /** Values that each worker sends. */
  readonly params: number;
  /** Seconds of the inner phase: of the fastest worker, and of the slowest. */
  readonly trainSeconds: readonly [number, number];
  /** Relays behave like these, in turn. */
  readonly dialects: readonly (ProfileName | 'ours')[];
  readonly limits: Partial<Limits>;
  /** Share of the writes whose packets have to be repeated. */
  readonly loss: number;
  /** Deviations beyond the median arrival that a round waits. */
  readonly deadlineC: number;
  /** Share of the workers that are killed in each round, and come back. */
  readonly churn: number;
  /** Every signature is checked, and every event read, once in this process, and charged to all who ask. */
  readonly sharesChecks: boolean;
  /** Over the usual spec. */
  readonly document: Untyped;
  readonly onRound?: (round: RoundFigures) => void;
  readonly onNote?: (text: string) => void;
}

/** One round over all workers. */
export interface RoundFigures {
  readonly round: number;
  /** Workers that finished it so far. */
  readonly finished: number;
  readonly accepted: number;
  /** Seconds on the clock of the run from the last contribution listed to the certificate: of the median worker, and of the last one. */
  readonly secondsToCertificate: readonly [number, number];
  /** Bytes that came to a worker since the round before ended with all. */
  readonly bytesDown: number;
  /** From the beginning of the run, until the last worker finished it. */
  readonly seconds: number;
  /** Until the median worker did. */
  readonly medianSeconds: number;
  /** Processor of this process since the round before. */
  readonly cpuSeconds: number;
  readonly rssBytes: number;
  readonly heapBytes: number;
  readonly phases: Phases;
}

interface Ideal {
  readonly seconds: number;
  readonly goodput: number;
}

export interface Played {
  readonly roots: ReadonlySet<string>;
  readonly rounds: readonly RoundFigures[];
  readonly failures: readonly string[];
  readonly sent: Sent;
  /** Per worker and round. */
  readonly bytesUp: number;
  readonly bytesDown: number;
  readonly framesDown: number;
  readonly receivedByKind: Readonly<Record<string, number>>;
  readonly checks: Checks;
  readonly reads: Checks;
  readonly applied: Checks;
  /** Of the processor, for one worker and round. */
  readonly checkSeconds: number;
  readonly readSeconds: number;
  readonly applySeconds: number;
  readonly journalBytes: number;
  readonly cpuSeconds: number;
  readonly relays: readonly {
    readonly eventsAccepted: number;
    readonly eventsDuplicate: number;
    readonly eventsRefused: number;
    readonly bytesIn: number;
    readonly bytesOut: number;
    readonly connections: number;
    /** At the same time. */
    readonly mostConnections: number;
    readonly refusedConnections: number;
  }[];
  readonly kills: number;
  /** Of the time of all workers until the median one has the last certificate. */
  readonly time: LostTime;
  readonly killed: readonly KilledRound[];
  /** Contributions an hour of ideal workers under these kills: in rounds as long as the longest phase, and in rounds of the best length. */
  readonly ideal: Readonly<Record<'slowest' | 'best', Ideal>> | undefined;
  readonly parameters: number;
  /** All that relays hold. */
  events(): readonly SignedEvent[];
}

/** More rounds have too many choices. */
const MOST_IDEAL = 12;
const MBIT = 125_000;
/** Between two words of how far a run is. */
const TELL_MS = 10_000;
/** Parameters of a small network for each hidden value. */
const HIDDEN = 5;

interface Slot {
  readonly index: number;
  readonly disk: Disk;
  readonly journal: KeptJournal;
  member: CertifiedMember;
  isUp: boolean;
  isDone: boolean;
}

export async function simulate(options: SimulationOptions): Promise<Played> {
  const clock = new VirtualClock();
  const folder = mkdtempSync(join(tmpdir(), 'nostrain-simulate-'));
  try {
    return await new Simulation(options, clock, folder).play();
  } finally {
    clock.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

class Simulation {
  readonly #options: SimulationOptions;
  readonly #clock: VirtualClock;
  readonly #folder: string;
  readonly #network: Network;
  readonly #tally: Tally;
  readonly #time: TimeBook;
  readonly #checks: Checks = { asked: 0, done: 0, seconds: 0 };
  readonly #reads: Checks = { asked: 0, done: 0, seconds: 0 };
  readonly #applied: Checks = { asked: 0, done: 0, seconds: 0 };
  readonly #crypto;
  readonly #read;
  readonly #apply;
  readonly #pool;
  readonly #spec;
  readonly #first: Params;
  readonly #slots: Slot[] = [];
  readonly #failures: string[] = [];
  readonly #roots = new Set<string>();
  readonly #startedMs: number;
  readonly #places: ReadonlyMap<string, number>;
  #done = 0;
  #kills = 0;

  constructor(options: SimulationOptions, clock: VirtualClock, folder: string) {
    this.#options = options;
    this.#clock = clock;
    this.#startedMs = clock.now();
    this.#folder = folder;
    const { workers, founders, rounds, seed, params, deadlineC, document } = options;
    this.#places = new Map(Array.from({ length: workers }, (_, i) => [keyOf(i), i]));
    this.#pool = eventPool(clock);
    this.#crypto = countedCrypto(this.#checks, clock, options.sharesChecks);
    this.#read = countedRead(this.#reads, clock, options.sharesChecks);
    this.#apply = countedApply(this.#applied, this.#checks, options.sharesChecks);
    this.#spec = certifiedSpec({
      founders: Array.from({ length: Math.min(workers, founders, MOST_KEYS) }, (_, i) => i),
      rounds,
      training: {
        packing: 'trellis',
        residual: 'none',
        model: 'mlp',
        hidden: [Math.max(1, Math.round(params / HIDDEN))],
      },
      timing: { graceMinMs: 5000, graceMaxMs: 120_000, viewMs: 10_000, deadlineC },
      document,
    });
    this.#first = startOf(this.#spec);
    const { dialects, limits, loss, relays } = options;
    const relay = (i: number) => {
      const dialect = dialects[i % dialects.length]!;
      return { ...(dialect === 'ours' ? {} : { strict: dialect }), limits, seed: seed + i };
    };
    const lines = {
      ...{ seed, loss, latencyMs: [15, 120] as const },
      ...{ downRate: 50 * MBIT, upRate: 10 * MBIT, relayRate: 1000 * MBIT },
    };
    this.#time = new TimeBook(clock);
    this.#tally = new Tally({ workers, clock, onRound: options.onRound });
    this.#network = new Network(
      clock,
      Array.from({ length: relays }, (_, i) => relay(i)),
      lines,
      this.#tally.tap,
    );
  }

  async play(): Promise<Played> {
    const { workers, rounds } = this.#options;
    const startedMs = this.#startedMs;
    for (let index = 0; index < workers; index++) this.#begin(index);
    if (this.#options.churn > 0) this.#tally.onFirstOf = (round) => this.#churn(round);
    if (this.#options.onNote) this.#tellOf(this.#options.onNote);
    const most = startedMs + rounds * 600_000 + 600_000;
    await this.#clock
      .runUntil(() => this.#done === workers, most)
      .catch((error: Error) => {
        const left = this.#slots.filter(({ isDone }) => !isDone).length;
        this.#failures.push(`${left} workers did not end: ${error.message}`);
      });
    return this.#figures();
  }

  /** Says every ten seconds on the clock of the run how far it is. */
  #tellOf(tell: (text: string) => void): void {
    const { cpuSeconds, open } = this.#tally;
    const connections = this.#network.relays.map(({ core }) => core.sessions.size);
    const rss = Math.round(process.memoryUsage.rss() / 1e6);
    const seconds = (this.#clock.now() - this.#startedMs) / 1000;
    const doing = this.#time.doing();
    tell(JSON.stringify({ seconds, cpuSeconds, rss, doing, connections, open }));
    this.#clock.at(this.#clock.now() + TELL_MS, () => this.#tellOf(tell));
  }

  #begin(index: number): void {
    const disk: Disk = { state: undefined, entry: undefined };
    const journal = createFolderJournal(this.#folder, index);
    this.#time.is(index, 'returning');
    const member = this.#start(index, disk, journal);
    const slot: Slot = { index, disk, journal, member, isUp: true, isDone: false };
    this.#slots.push(slot);
    this.#watch(slot);
  }

  #start(index: number, disk: Disk, journal: KeptJournal): CertifiedMember {
    const clock = this.#clock;
    const all = createRelaySet(this.#network.urls, {
      openSocket: this.#network.openSocketOf(index),
      ...{ clock, crypto: this.#crypto, random: this.#drawsOf(index) },
      readRelays: (names) => relaysOfKey(names, keyOf(index), this.#options.copies),
    });
    const relays = this.#options.sharesChecks ? this.#pool(all) : all;
    return startCertified({
      ...{
        index,
        relays,
        clock,
        disk,
        journal,
        spec: this.#spec,
        layout: this.#first.layout,
        first: this.#first.values,
      },
      ...{ crypto: this.#crypto, read: this.#read, apply: this.#apply.apply },
      trainer: this.#trainerOf(index),
      // a relay may take as long as the round, as in the settings that a spec makes
      plan: { evaluate: false, roundTimeoutMs: this.#spec.timing.graceMaxMs },
      onEvent: (event) => event.type === 'stalled' && this.#tally.stalled(event),
      onSave: (state) => this.#saved(index, state),
    });
  }

  #trainerOf(index: number): Trainer {
    const trainer = drawnTrainer(
      index,
      this.#first.layout,
      this.#clock,
      (round) => this.#trainMs(index, round),
      this.#options.churn > 0 ? this.#options.trainSeconds[1] : 1,
    );
    return {
      ...trainer,
      train: async (task, ...rest) => {
        this.#time.is(index, 'training', task.round);
        const made = await trainer.train(task, ...rest);
        this.#time.is(index, 'waiting');
        return made;
      },
    };
  }

  #saved(index: number, { round, sent, head }: CertifiedState): void {
    if (sent) return;
    const rows = this.#apply.rowsOf(head.parent);
    this.#tally.reached(index, round, rows.length);
    for (const { worker, late } of rows)
      this.#time.row({ worker: this.#places.get(worker)!, round: round - 1, late });
    this.#time.is(index, round < this.#options.rounds ? 'waiting' : 'over', round);
  }

  #watch(slot: Slot): void {
    const { member } = slot;
    member.finished.then(
      ({ head }) => {
        this.#roots.add(head.modelRoot);
        this.#done++;
        slot.isDone = true;
      },
      (error: unknown) => {
        if (slot.member !== member || !slot.isUp) return;
        this.#failures.push(`worker ${slot.index}: ${String(error)}`);
        this.#done++;
        slot.isDone = true;
      },
    );
  }

  /** Kills some in the course of the round, and starts them again from what is on disk. */
  #churn(round: number): void {
    const { onNote } = this.#options;
    for (const slot of this.#slots) {
      const kill = this.#killOf(slot.index, round);
      if (!kill || !slot.isUp || slot.isDone) continue;
      const atMs = this.#clock.now() + 1000 * kill.at;
      const backMs = this.#clock.now() + 1000 * kill.back;
      this.#clock.at(atMs, () => {
        if (slot.isDone) return;
        slot.isUp = false;
        this.#kills++;
        slot.member.stop();
        this.#time.is(slot.index, 'away');
      });
      this.#clock.at(backMs, () => {
        if (slot.isDone || slot.isUp) return;
        slot.isUp = true;
        this.#time.is(slot.index, 'returning');
        slot.member = this.#start(slot.index, slot.disk, slot.journal);
        this.#watch(slot);
      });
    }
    onNote?.(`round ${round}: killed ${this.#kills} in all`);
  }

  #killOf(index: number, round: number): Kill | undefined {
    const { seed, churn, trainSeconds } = this.#options;
    const [kill, when, away] = philox([seed, 99], index, round, 0, 0);
    if (unit(kill) >= churn) return undefined;
    const at = trainSeconds[1] * unit(when);
    return { at, back: at + 2 + trainSeconds[1] * unit(away) };
  }

  #ideal(): Played['ideal'] {
    const { workers, rounds, trainSeconds } = this.#options;
    const of = {
      ...{ workers, rounds, defers: this.#spec.late === 'defer' },
      killOf: (index: number, round: number) => this.#killOf(index, round),
      trainSeconds: (index: number, round: number) => this.#trainMs(index, round) / 1000,
    };
    const [, most] = trainSeconds;
    const lengths = Array.from({ length: 61 }, (_, i) => most * (0.7 + i / 100));
    const all = lengths.map((seconds) => ({ seconds, goodput: idealGoodput(of, seconds) }));
    const best = all.reduce((a, b) => (b.goodput > a.goodput ? b : a));
    return { slowest: { seconds: most, goodput: idealGoodput(of, most) }, best };
  }

  #trainMs(index: number, round: number): number {
    const [least, most] = this.#options.trainSeconds;
    const [own, now] = philox([this.#options.seed, 5], index, round, 0, 0);
    const [speed] = philox([this.#options.seed, 6], index, 0, 0, 0);
    const share = 0.8 * unit(speed) + 0.1 * unit(own) + 0.1 * unit(now);
    return 1000 * (least + (most - least) * share);
  }

  #drawsOf(index: number): () => number {
    let at = 0;
    return () => unit(philox([this.#options.seed, 11], index, at++, 0, 0)[0]);
  }

  #figures(): Played {
    const { workers, rounds } = this.#options;
    const traffic = this.#slots.map(({ index }) => this.#network.trafficOf(index));
    const mean = (of: (one: (typeof traffic)[number]) => number) =>
      traffic.reduce((sum, one) => sum + of(one), 0) / workers / rounds;
    return {
      ...{ roots: this.#roots, failures: this.#failures, kills: this.#kills },
      time: this.#time.shares(
        this.#startedMs + 1000 * (this.#tally.rounds.at(-1)?.medianSeconds ?? 0),
      ),
      killed: this.#time.killed(),
      // who may choose weighs every choice: of some rounds
      ideal: this.#options.churn > 0 && rounds <= MOST_IDEAL ? this.#ideal() : undefined,
      rounds: this.#tally.rounds,
      parameters: this.#first.layout.size,
      events: () => eventsOf(this.#network.relays),
      sent: this.#tally.sent(rounds),
      bytesUp: mean(({ bytesUp }) => bytesUp),
      bytesDown: mean(({ bytesDown }) => bytesDown),
      framesDown: mean(({ framesDown }) => framesDown),
      receivedByKind: this.#tally.received(rounds),
      checks: this.#checks,
      reads: this.#reads,
      applied: this.#applied,
      applySeconds: chargedSeconds(this.#applied) / workers / rounds,
      readSeconds: chargedSeconds(this.#reads) / workers / rounds,
      checkSeconds: chargedSeconds(this.#checks) / workers / rounds,
      journalBytes: this.#slots.reduce((sum, { journal }) => sum + journal.written, 0),
      cpuSeconds: this.#tally.cpuSeconds / rounds,
      relays: this.#network.relays.map(({ core: { counts, sessions }, mostConnections }) => ({
        eventsAccepted: counts.eventsAccepted,
        eventsDuplicate: counts.eventsDuplicate,
        eventsRefused: counts.eventsRefused,
        bytesIn: counts.bytesIn,
        bytesOut: counts.bytesOut,
        connections: sessions.size,
        mostConnections,
        refusedConnections: counts.connectionsRefused,
      })),
    };
  }
}

/** Each event once. */
function eventsOf(relays: readonly SimulatedRelay[]): readonly SignedEvent[] {
  const events = new Map<string, SignedEvent>();
  for (const { core } of relays) {
    for (const { id, json } of core.store.entries()) {
      if (!events.has(id)) events.set(id, JSON.parse(json.toString()));
    }
  }
  return [...events.values()];
}
