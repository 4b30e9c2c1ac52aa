/** What a worker needs from the machine it runs on. The loop knows these shapes and nothing behind them. */
import type { Clock } from '../base/async.ts';
import type { CreateSha256 } from '../base/hash.ts';
import type { Key } from '../base/rng.ts';
import type { Tokens } from '../model/data/tokens.ts';
import type { Choice } from '../model/sample.ts';
import type { Wire } from '../network/wire/wire.ts';
import type { Machine } from '../run/contribution.ts';
import type { Layout, Vector } from '../tensor/params.ts';
import type { WorkerEvent } from './events.ts';
import type { Plan } from './plan.ts';
import type { WorkerState } from './state.ts';

/** The machine as a worker sees it: clock, trainer, wire, storage, and where its events are reported. */
export interface Ports {
  readonly clock: Clock;
  readonly trainer: Trainer;
  readonly wire: Wire;
  readonly store: Store;
  /** What states are hashed with; default the pure one. */
  readonly createSha256?: CreateSha256 | undefined;
  report(event: WorkerEvent): void;
}

/** What every part of the loop works with: the plan, the machine, and the signal that ends it. */
export interface Session {
  readonly plan: Plan;
  readonly ports: Ports;
  readonly signal: AbortSignal;
}

/** A worker's inner phase: H optimizer steps on its own data. */
export interface TrainTask {
  /** By layout; f64 in runs of the reference's states. */
  readonly params: Vector;
  /** Inner optimizer state, one flat f32 vector each; empty before the first step. */
  readonly moments: readonly Float32Array[];
  readonly round: number;
  readonly steps: number;
  /** Global step of the first one: what the learning rate schedule sees. */
  readonly firstStep: number;
  /** Key of the stream the batches are drawn from; with round and step it fixes every batch. */
  readonly batchKey: Key;
  /** How many more steps may follow; asked between steps. At 0 the phase ends, once one was taken. */
  remainingSteps?(done: number): number;
  /** Where the phase is kept while it is under way; an engine that does not ask begins it anew after a restart. */
  readonly keeping?: Keeping | undefined;
}

/** An inner phase after some of its steps: its end follows from it and from the task. */
export interface HalfPhase {
  readonly done: number;
  /** The engine's vectors: parameters first, then the inner optimizer's; what else it keeps may be absent. */
  readonly vectors: readonly Float32Array[];
  readonly losses: Float32Array;
  /** That it took, restarts not counted. */
  readonly seconds: number;
}

/** Keeps an inner phase, so that a worker that is killed loses little of it. */
export interface Keeping {
  /** Where the same phase was left by a process that was killed. */
  readonly from: HalfPhase | undefined;
  isDue(): boolean;
  keep(half: HalfPhase): Promise<void>;
}

/** Result of any training backend. */
export interface TrainingResult {
  readonly params: Vector;
  readonly moments: readonly Float32Array[];
  /** One per step, or one for all of them. */
  readonly losses: Vector;
  /** Steps taken; default as many as the task says. */
  readonly steps?: number;
  readonly examples: number;
  readonly seconds: number;
}

export interface TrainProgress {
  readonly step: number;
  readonly steps: number;
  readonly loss: number;
  readonly tokensPerSecond: number;
}

/** Rows to measure a loss on: with replacement, the same for everybody who has the key and the data. */
export interface RowDraw {
  readonly key: Key;
  readonly rows: number;
}

export interface SampleRequest extends Choice {
  readonly prompt: Tokens;
  readonly length: number;
  readonly ends?: ReadonlySet<number> | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Batches of its own shard on which a worker measures its loss before the first round and after the last one. */
export const SHARD_BATCHES = 4;

/** Where the numbers of a training engine come from. */
export interface Origin {
  /** Which part of the data: `2/4`. */
  readonly shard: string;
  /** What the bits depend on: engine, machine, threads; in ASCII, 128 characters at most. */
  readonly build: string;
}

/** A training engine: `createTrainer` of `nostrain/node`, or one of your own. */
export interface Trainer {
  readonly device: Machine & { readonly threads: number; readonly notice?: string };
  readonly layout: Layout;
  /** Where its numbers come from; absent where nobody can expect the same bits of this worker. */
  readonly origin?: Origin;
  train(
    task: TrainTask,
    onProgress: (progress: TrainProgress) => void,
    signal: AbortSignal,
  ): Promise<TrainingResult>;
  /** Mean loss on fixed windows of a slice. */
  evaluate(
    params: Vector,
    on: 'validation' | 'shard',
    limit?: { readonly batches: number },
  ): Promise<number>;
  /** Of the same rows the share that the model has right; absent where a model is not right or wrong. */
  accuracy?(
    params: Vector,
    on: 'validation' | 'shard',
    limit?: { readonly batches: number },
  ): Promise<number>;
  /** Losses of the rows that a key draws, also during an inner phase; without it a worker judges nobody by loss. */
  measure?(params: Vector, on: 'validation' | 'shard', draw: RowDraw): Promise<Float32Array>;
  /** The prompt and what follows it; `onToken` is told of every token as soon as it is drawn. */
  sample(
    params: Float32Array,
    request: SampleRequest,
    onToken?: (token: number) => void,
  ): Promise<Tokens>;
  close(): Promise<void>;
}

/** Where a run is stored on disk. Files are replaced atomically. */
export interface Store<S extends WorkerState = WorkerState> {
  load(layout: Layout): Promise<S | undefined>;
  save(state: WorkerState): Promise<void>;
  /** Where the inner phase in progress is kept; without it a worker that is killed begins it anew. */
  readonly phase?: PhaseStore;
}

export interface PhaseStore {
  /** Undefined where there is none, or none that can be read. */
  load(): Promise<Uint8Array | undefined>;
  save(bytes: Uint8Array): Promise<void>;
}
