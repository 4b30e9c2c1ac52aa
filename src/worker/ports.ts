/** Interfaces between the worker loop and the machine it runs on: clock, trainer, wire and storage. */

import type { Clock } from '../base/async.ts';
import type { CreateSha256 } from '../base/hash.ts';
import type { Key } from '../base/rng.ts';
import type { BatchProgress } from '../base/slow.ts';
import type { Tokens } from '../model/data/tokens.ts';
import type { Continuation } from '../model/sample.ts';
import type { Wire } from '../network/wire/wire.ts';
import type { Machine } from '../run/contribution.ts';
import type { Layout, Vector } from '../tensor/params.ts';
import type { Range } from '../tensor/partial-vector.ts';
import type { TrainProgress, WorkerEvent } from './events.ts';
import type { Plan } from './plan.ts';
import type { WorkerState } from './state.ts';

/** What a worker gets from its machine. */
export interface Ports {
  readonly clock: Clock;
  readonly trainer: Trainer;
  readonly wire: Wire;
  readonly store: Store;
  /** Hash for states; default pure JavaScript. */
  readonly createSha256?: CreateSha256 | undefined;
  report(event: WorkerEvent): void;
}

/** The plan, the ports, and the signal that ends the worker. */
export interface Session {
  readonly plan: Plan;
  readonly ports: Ports;
  readonly signal: AbortSignal;
}

/** The task of an inner phase: H optimizer steps on the worker's own data. */
export interface TrainTask {
  /** Flat parameters in the model's layout; f64 in runs with states of the Python reference. */
  readonly params: Vector;
  /** Inner optimizer state, one flat f32 vector each; empty before the first step. */
  readonly moments: readonly Float32Array[];
  readonly round: number;
  readonly steps: number;
  /** Global index of the first step, for the learning rate schedule. */
  readonly firstStep: number;
  /** Key of the stream the batches are drawn from; with round and step it fixes every batch. */
  readonly batchKey: Key;
  /** Ranges of the parameters to train, in a model with experts; default all. The others keep their bits. */
  readonly trains?: readonly Range[] | undefined;
  /** Documents of the corpus that no batch may read, by position, ascending; default none. */
  readonly without?: readonly number[] | undefined;
  /** Returns how many more steps may follow; called between steps. At 0 the phase ends, after at least one step. */
  remainingSteps?(done: number): number;
  /** Saves the phase in progress; an engine that ignores it restarts the phase after a crash. */
  readonly keeping?: Keeping | undefined;
}

/** An inner phase after some of its steps; together with the task it determines the result. */
export interface HalfPhase {
  readonly done: number;
  /** The engine's vectors: parameters first, then those of the inner optimizer; other engine state may be absent. */
  readonly vectors: readonly Float32Array[];
  readonly losses: Float32Array;
  /** Seconds taken so far, without restarts. */
  readonly seconds: number;
}

/** Saves an inner phase, so that a killed worker loses little of it. */
export interface Keeping {
  /** The phase as a killed process left it; undefined if none is saved. */
  readonly from: HalfPhase | undefined;
  isDue(): boolean;
  keep(half: HalfPhase): Promise<void>;
}

/** Result of any training backend. */
export interface TrainingResult {
  readonly params: Vector;
  readonly moments: readonly Float32Array[];
  /** One loss per step, or a single one. */
  readonly losses: Vector;
  /** Steps taken; default as many as the task says. */
  readonly steps?: number;
  readonly examples: number;
  readonly seconds: number;
}

/** How much is evaluated, and who hears how far it is. */
export interface EvaluationOptions {
  /** Number of batches; by default all windows. */
  readonly batches?: number | undefined;
  onProgress?(progress: BatchProgress): void;
}

/** Draw of data rows for a loss, with replacement; the same for everyone with the key and the data. */
export interface RowDraw {
  readonly key: Key;
  readonly rows: number;
}

export interface SampleRequest extends Continuation {
  readonly prompt: Tokens;
}

/** Batches of its own shard on which a worker evaluates before the first and after the last round. */
export const SHARD_BATCHES = 4;

/** What the bits of a training engine depend on. */
export interface Origin {
  /** Data shard, such as `2/4`. */
  readonly shard: string;
  /** Engine, machine and threads; ASCII, at most 128 characters. */
  readonly build: string;
}

/** A training engine: `createTrainer` of `nostrain/node`, or your own. */
export interface Trainer {
  readonly device: Machine & { readonly threads: number; readonly notice?: string };
  readonly layout: Layout;
  /** Origin of its numbers; absent if its bits cannot be reproduced elsewhere. */
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
    options?: EvaluationOptions,
  ): Promise<number>;
  /** Accuracy on the same windows; absent for models that are not classifiers. */
  accuracy?(
    params: Vector,
    on: 'validation' | 'shard',
    options?: EvaluationOptions,
  ): Promise<number>;
  /**
   * Returns the losses of data rows that a key draws; may be called during an inner phase. Without it a worker does not
   * judge others by loss.
   */
  measure?(params: Vector, on: 'validation' | 'shard', draw: RowDraw): Promise<Float32Array>;
  /** Returns the prompt and its continuation; calls `onToken` for each token as it is drawn. */
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
  /** Stores the inner phase in progress; without it a killed worker restarts the phase. */
  readonly phase?: PhaseStore;
}

export interface PhaseStore {
  /** Returns the saved phase; undefined if it is missing or unreadable. */
  load(): Promise<Uint8Array | undefined>;
  save(bytes: Uint8Array): Promise<void>;
}
