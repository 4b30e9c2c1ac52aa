/**
 * Runs the workers of a world over the simulated network: starts, kills and restarts their processes, and does to them
 * and the relays what faults ask for.
 */
import { shardSettings } from 'nostrain/certified/parts';
import { createRelaySet, type EventCrypto, type RelaySet, type Signer } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { limitsOf } from 'nostrain/relay';
import type { Vector } from 'nostrain/tensor';
import type { Trainer } from 'nostrain/worker';
import type { Limits } from '../../relay/limits.ts';
import { createStandardPolicies, type Policy, verifiedSignature } from '../../relay/policies.ts';
import { formatShard } from '../../src/run/field.ts';
import type { Weather } from '../bench/simulate/line.ts';
import { Network } from '../bench/simulate/network.ts';
import type { VirtualClock } from '../bench/simulate/virtual-clock.ts';
import { keyOf, signerOf } from '../support/swarm.ts';
import type { Attack } from './attacks.ts';
import { SimulatedChain } from './chain.ts';
import type { Chronicle } from './chronicle.ts';
import { type Mounted, WorldDisk } from './disk.ts';
import { type Draws, drawsOf } from './draws.ts';
import { type Engines, timedEngine } from './engine.ts';
import type { Alteration, IsLost, RelayFaults, Stage, Visit } from './faults/fault.ts';
import { isInChunks } from './features.ts';
import { keyedCrypto, keyedSignature, keyedSignerOf } from './keyed-crypto.ts';
import { MachineClock } from './machine-clock.ts';
import { programs, type Running } from './programs.ts';
import { startOfWorker } from './spec.ts';
import { pullingTrainer } from './trainer.ts';
import { spoiledIn, type World } from './world.ts';

interface Process {
  readonly member: Running;
  readonly disk: Mounted;
  cut(): void;
}

interface Machine {
  readonly index: number;
  readonly disk: WorldDisk;
  readonly clock: MachineClock;
  attack: Attack;
  changed: (params: Vector, round: number) => Vector;
  isMisjudging: boolean;
  startSeconds: number;
  /** Undefined while it is away. */
  process: Process | undefined;
  sessions: number;
}

/** Number of a stranger's first key; a visit of strangers takes as many. */
const STRANGERS = 200;

type IsSevered = (worker: number, relay: number) => boolean;

const MBIT = 125_000;
/** Parts of an inner phase that survive a kill. */
const PARTS = 4;

export class WorldStage implements Stage {
  readonly world: World;
  readonly #clock: VirtualClock;
  readonly #chronicle: Chronicle;
  readonly #startMs: number;
  /** By worker; then second machines with the key of one. */
  readonly #machines: Machine[];
  readonly #severed = new Set<IsSevered>();
  readonly #lost = new Set<IsLost>();
  /** By relay: milliseconds that frames take longer, and what becomes of them on the way. */
  readonly #slowed = new Map<number, number>();
  readonly #altered = new Map<number, Alteration>();
  readonly #draws: Draws;
  readonly #relayFaults: RelayFaults[];
  readonly #network: Network;
  readonly #crypto: EventCrypto;
  readonly #spoiled: ReadonlySet<number>;
  readonly #chain: SimulatedChain;
  readonly #engines: Engines;
  #visits = 0;

  constructor(world: World, clock: VirtualClock, chronicle: Chronicle, engines: Engines = []) {
    this.world = world;
    this.#clock = clock;
    this.#engines = engines;
    this.#chronicle = chronicle;
    this.#startMs = clock.now();
    this.#crypto = world.isReal ? nativeCrypto : keyedCrypto;
    this.#draws = drawsOf(world.seed, 'frames');
    this.#spoiled = spoiledIn(world);
    this.#chain = new SimulatedChain(chronicle.spec, clock);
    this.#machines = Array.from({ length: world.workers }, (_, i) => this.#machineOf(i));
    this.#relayFaults = Array.from({ length: world.relays }, () => ({}));
    this.#network = this.#connect();
  }

  #machineOf(index: number): Machine {
    const disk = new WorldDisk();
    this.#chronicle.disks.set(index, disk);
    return {
      ...{ index, disk, clock: new MachineClock(this.#clock) },
      ...{ startSeconds: 0, process: undefined, sessions: 0 },
      ...{ attack: (relays: RelaySet) => relays, changed: (params: Vector) => params },
      isMisjudging: false,
    };
  }

  #connect(): Network {
    const { seed, isReal, dialects } = this.world;
    const weather: Weather = {
      reaches: (worker, relay) => this.#reaches(worker, relay),
      passes: (...frame) => ![...this.#lost].some((isLost) => isLost(...frame)),
      slowedMs: (_, relay) => this.#slowed.get(relay) ?? 0,
      arriving: (text, _, relay) => this.#altered.get(relay)?.(text, this.#draws) ?? text,
    };
    const relays = this.#relayFaults.map((faults, i) => {
      const dialect = dialects[i % dialects.length]!;
      const strict = dialect === 'ours' ? {} : { strict: dialect };
      const policies = isReal ? {} : { policies: policiesWithKeyedSignatures(limitsOf(strict)) };
      return { ...strict, ...policies, seed: seed + i, faults };
    });
    const lines = {
      ...{ seed, loss: 0, latencyMs: [15, 120] as const },
      ...{ downRate: 50 * MBIT, upRate: 10 * MBIT, relayRate: 1000 * MBIT },
    };
    return new Network(this.#clock, relays, lines, this.#chronicle.tap, weather);
  }

  #reaches(worker: number, relay: number): boolean {
    return ![...this.#severed].some((cuts) => cuts(worker, relay));
  }

  /** Starts all workers that do not come late. */
  begin(): void {
    for (const machine of this.#machines) {
      this.after(machine.startSeconds, () => this.#start(machine));
    }
  }

  /** All honest workers have finished. */
  get isOver(): boolean {
    const { finished } = this.#chronicle;
    return this.#machines.every(({ index }) => finished.has(index) || this.#spoiled.has(index));
  }

  /** Kills all processes that are left. */
  close(): void {
    for (const machine of this.#machines) this.#end(machine);
  }

  after(seconds: number, act: () => void): void {
    this.#clock.at(this.#startMs + 1000 * seconds, act);
  }

  get #seconds(): number {
    return (this.#clock.now() - this.#startMs) / 1000;
  }

  kill(worker: number, awaySeconds: number): void {
    const machine = this.#machines[worker]!;
    if (!machine.process || this.#chronicle.finished.has(worker)) return;
    this.#note(`worker ${worker} dies for ${awaySeconds} s`);
    this.#end(machine);
    this.after(this.#seconds + awaySeconds, () => this.#start(machine));
  }

  comesLate(worker: number, seconds: number): void {
    this.#machines[worker]!.startSeconds = seconds;
  }

  disk(worker: number): WorldDisk {
    return this.#machines[worker]!.disk;
  }

  startTwin(worker: number): void {
    this.#note(`a second machine has the key of worker ${worker}`);
    const twin = this.#machineOf(worker);
    this.#machines.push(twin);
    this.#start(twin);
  }

  setClock(worker: number, aheadMs: number, gainPpm: number): void {
    this.#machines[worker]!.clock.set(aheadMs, gainPpm);
  }

  setAttack(worker: number, attack: Attack): void {
    const machine = this.#machines[worker]!;
    const before = machine.attack;
    machine.attack = (relays, signer) => attack(before(relays, signer), signer);
  }

  setTraining(worker: number, change: Machine['changed']): void {
    this.#machines[worker]!.changed = change;
  }

  setMisjudging(worker: number): void {
    this.#machines[worker]!.isMisjudging = true;
  }

  visit(from: number, to: number, keys: number, act: Visit): void {
    const index = STRANGERS * (1 + this.#visits++);
    const signers = Array.from({ length: keys }, (_, i) => this.#signerOf(index + i));
    this.after(from, () => {
      this.#note(`strangers with ${keys} keys come until ${to} s`);
      const { openSocket, cut } = this.#network.plug(index);
      const random = drawsOf(this.world.seed, 'random', index).unit;
      const options = { openSocket, clock: this.#clock, crypto: this.#crypto, random };
      const relays = createRelaySet(this.#network.urls, options);
      act(relays, signers);
      this.after(to, () => {
        cut();
        void relays.close();
      });
    });
  }

  suspend(worker: number, untilSeconds: number): void {
    this.#note(`worker ${worker} sleeps until ${untilSeconds} s`);
    this.#machines[worker]!.clock.suspend(this.#startMs + 1000 * untilSeconds);
  }

  slowDown(relay: number, ms: number): void {
    this.#note(`relay ${relay} is ${ms.toFixed(0)} ms slower`);
    this.#slowed.set(relay, ms);
  }

  alter(relay: number, from: number, to: number, change: Alteration): void {
    this.after(from, () => {
      this.#note(`relay ${relay} alters frames until ${to} s`);
      this.#altered.set(relay, change);
    });
    this.after(to, () => this.#altered.delete(relay));
  }

  sever(from: number, to: number, isSevered: IsSevered): void {
    this.after(from, () => {
      this.#note(`connections break until ${to} s`);
      this.#severed.add(isSevered);
      this.#network.recheck();
    });
    this.after(to, () => {
      this.#note('connections heal');
      this.#severed.delete(isSevered);
    });
  }

  lose(from: number, to: number, isLost: IsLost): void {
    this.after(from, () => {
      this.#note(`frames are lost until ${to} s`);
      this.#lost.add(isLost);
    });
    this.after(to, () => this.#lost.delete(isLost));
  }

  forget(relay: number): void {
    this.#note(`relay ${relay} forgets everything`);
    this.#network.relays[relay]!.forget();
  }

  setRelay(relay: number, faults: RelayFaults): void {
    this.#note(`relay ${relay}: ${JSON.stringify(faults)}`);
    Object.assign(this.#relayFaults[relay]!, faults);
    for (const session of [...this.#network.relays[relay]!.core.sessions]) session.terminate();
  }

  #note(text: string): void {
    this.#chronicle.note(text);
  }

  #end(machine: Machine): void {
    const { process } = machine;
    if (!process) return;
    machine.process = undefined;
    process.disk.unmount();
    process.cut();
    process.member.stop();
  }

  #start(machine: Machine): void {
    const { index, clock } = machine;
    const disk = machine.disk.mount();
    const { openSocket, cut } = this.#network.plug(index);
    const crypto = this.#crypto;
    const random = drawsOf(this.world.seed, 'random', index, machine.sessions++).unit;
    const signer = this.#signerOf(index);
    const connected = createRelaySet(this.#network.urls, {
      ...{ openSocket, clock, crypto, random },
      // rounds are short: at the usual rate, private states and chunks would wait behind votes for longer than a round
      ...((this.#chronicle.spec.jury > 0 || isInChunks(this.world.document)) && {
        eventsPerMinute: 600,
      }),
    });
    const relays = machine.attack(connected, signer);
    const first = startOfWorker(this.#chronicle.spec, index);
    const program = programs[this.world.run];
    const member = program({
      ...{ index, relays, signer, crypto, clock, disk, first },
      recomputing: this.#recomputing(machine),
      ...{ trainer: this.#trainerOf(machine), isLater: this.#seconds > 0 },
      chronicle: this.#chronicle,
      chain: this.#chain,
      reachable: () => this.#machines.flatMap(({ process }) => process?.disk ?? []),
    });
    machine.process = { member, disk, cut };
    this.#watch(machine, member);
  }

  #signerOf(index: number): Signer {
    return this.world.isReal ? signerOf(index) : keyedSignerOf(index);
  }

  #watch(machine: Machine, member: Running): void {
    const { index } = machine;
    member.finished.then(
      () => {
        if (machine.process?.member !== member) return;
        this.#note(`worker ${index} has finished`);
        this.#chronicle.finished.add(index);
      },
      (error: unknown) => {
        if (machine.process?.member !== member) return;
        this.#note(`worker ${index} ends: ${String(error)}`);
        this.#chronicle.failures.push({ worker: index, message: String(error) });
        this.#end(machine);
        this.after(this.#seconds + 5, () => this.#start(machine));
      },
    );
  }

  #trainerOf({ index, clock, changed, sessions }: Machine): Trainer {
    const { spec } = this.#chronicle;
    const shard = formatShard(shardSettings(spec, keyOf(index), {}).shard);
    // other processes of an engine round otherwise, except where others run the steps again
    const engine = spec.jury > 0 ? 0 : sessions;
    const msOf = (round: number) => this.#trainMs(index, round);
    const timing = { clock, msOf, shard };
    const real = this.#engines[index];
    const trainer = real
      ? timedEngine(real, timing)
      : pullingTrainer({ ...timing, ...this.#dataOf(index), parts: PARTS, engine });
    return {
      ...trainer,
      async train(task, ...rest) {
        const made = await trainer.train(task, ...rest);
        return { ...made, params: changed(made.params, task.round) };
      },
    };
  }

  /** Returns how a machine runs the steps of others again, faster than these did. */
  #recomputing({ index, clock, isMisjudging }: Machine): (shard: string) => Trainer {
    return (shard) =>
      pullingTrainer({
        ...{ ...this.#dataOf(index), clock, parts: PARTS, msOf: () => 400, engine: 0 },
        shard: isMisjudging ? `${shard} of others` : shard,
      });
  }

  #dataOf(index: number) {
    const { layout } = startOfWorker(this.#chronicle.spec, index);
    return { layout, batchSize: this.#chronicle.spec.training.batchSize };
  }

  #trainMs(worker: number, round: number): number {
    const [least, most] = this.world.trainSeconds;
    const speed = drawsOf(this.world.seed, 'speed', worker).unit();
    const now = drawsOf(this.world.seed, 'pace', worker, round).unit();
    return 1000 * (least + (most - least) * (0.8 * speed + 0.2 * now));
  }
}

/** The usual policies of a relay, with rate counters of its own. */
const policiesWithKeyedSignatures = (limits: Limits): readonly Policy[] =>
  createStandardPolicies(limits).map((policy) =>
    policy === verifiedSignature ? keyedSignature : policy,
  );
