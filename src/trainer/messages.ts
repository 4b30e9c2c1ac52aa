/** Messages between the main thread and the trainer threads. */
import type { Feed, Feeds } from '../model/feeds.ts';
import type { Data, DataName } from '../model/forms/form.ts';
import type { Half } from '../model/graph/lower.ts';
import type { RangeUpdate } from '../model/training-program.ts';
import type { TensorSlot } from '../tensor/params.ts';

/** Execution provider that runs the graphs. */
export type Device = 'cpu' | 'cuda' | 'webgpu';

/** Everything a trainer thread needs to open. */
export interface OpenRequest {
  readonly device: Device;
  readonly threads: number;
  readonly data: Readonly<Partial<Record<DataName, Data>>>;
  /** The frozen tensors of the model, fed to every program. */
  readonly frozen: Feeds;
  readonly evaluate: Uint8Array;
  readonly forward: Uint8Array;
  /** Rows per run of `evaluate`. */
  readonly rows: number;
  readonly training: SingleTraining | ReplicaTraining;
  /** Type of matrix products in training; default f32. */
  readonly half?: Half;
}

/** Training in one thread, which takes all steps. */
export interface SingleTraining {
  readonly kind: 'single';
  /** ONNX program: a Loop over many steps; on WebGPU a single step, which is called repeatedly. */
  readonly model: Uint8Array;
  /** Names of the state inputs, `params` first, each replaced by the output `<name>.next`. */
  readonly state: readonly string[];
  readonly batch: number;
  readonly rateCount: number;
}

/** Training in several threads (replicas) that share every step. */
export interface ReplicaTraining {
  readonly kind: 'replica';
  readonly replica: number;
  readonly replicas: number;
  /** ONNX program for the gradient of one part of the batch. */
  readonly gradient: Uint8Array;
  readonly combine: Uint8Array;
  readonly updates: readonly RangeUpdate[];
  readonly state: readonly string[];
  readonly parts: number;
  readonly rowsPerPart: number;
  readonly rateCount: number;
  readonly clipNorm: number;
  /** Whether the loss is masked; parts are then weighted by their number of counted tokens. */
  readonly masked: boolean;
  readonly shared: SharedState;
}

/** Memory shared by all replicas. */
export interface SharedState {
  /** Barrier and ticket counter; see `replica.ts`. */
  readonly control: Int32Array<SharedArrayBuffer>;
  /** Parameters and moments. */
  readonly state: readonly Float32Array<SharedArrayBuffer>[];
  /** Gradient of each part. */
  readonly gradients: readonly Float32Array<SharedArrayBuffer>[];
  /** Loss of each part. */
  readonly losses: Float32Array<SharedArrayBuffer>;
  /** Number of counted tokens in each part, if the loss is masked. */
  readonly counts: Float32Array<SharedArrayBuffer>;
  /** Sum of squares of each range of the combined gradient. */
  readonly squares: Float32Array<SharedArrayBuffer>;
}

/** How to decode text with the current parameters. */
export interface ReadingRequest {
  readonly vocabulary: number;
  readonly layers: number;
  readonly cached: { readonly heads: number; readonly size: number };
  /** Maximum length of a text, in tokens. */
  readonly capacity: number;
  /** ONNX programs by the number of tokens they read per call. */
  readonly programs: ReadonlyMap<number, Uint8Array>;
  /** Positions of the tensors in the parameters. */
  readonly slots: readonly TensorSlot[];
}

export interface Advance {
  readonly rates: Float32Array;
  readonly rows: Int32Array;
}

export interface Advanced {
  /** One per step. */
  readonly losses: Float32Array;
  readonly seconds: number;
}

/** Results of an evaluation, one value per row. */
export interface RowLosses {
  readonly losses: Float32Array;
  /** Number of counted tokens in the row if the loss is masked; else 1. */
  readonly counts: Float32Array;
  /** 1 if the model classifies the row correctly; classifiers only. */
  readonly hits?: Float32Array;
}

/** The calls that a trainer thread serves, by name. */
export interface TrainerCalls {
  open(request: OpenRequest): Promise<void>;
  /** Sets the state that `advance` updates. Replicas read it from shared memory instead. */
  begin(vectors: readonly Float32Array[]): Promise<void>;
  advance(task: Advance): Promise<Advanced>;
  /** Returns the state. */
  finish(): Promise<readonly Float32Array[]>;
  /** Sets the parameters for `evaluate`, `forward` and `openReader`. */
  setParams(params: Float32Array): Promise<void>;
  /** Evaluates rows; their number must be a multiple of `OpenRequest.rows`. */
  evaluate(ask: { readonly on: DataName; readonly rows: Int32Array }): Promise<RowLosses>;
  forward(inputs: Feed): Promise<Float32Array>;
  /** Prepares `read`; call it again after `setParams`. */
  openReader(request: ReadingRequest): Promise<void>;
  /** Returns the logits after these tokens, which begin a new text or continue the last call's. */
  read(ask: { readonly tokens: Int32Array; readonly begins: boolean }): Promise<Float32Array>;
}

export type CallName = keyof TrainerCalls;
export type ArgumentOf<K extends CallName> = Parameters<TrainerCalls[K]>[0];
export type ResultOf<K extends CallName> = Awaited<ReturnType<TrainerCalls[K]>>;

export type ThreadRequest = {
  readonly [K in CallName]: { readonly id: number; readonly call: K; readonly ask: ArgumentOf<K> };
}[CallName];

export type ThreadResponse =
  | { readonly id: number; readonly ok: true; readonly answer: ResultOf<CallName> }
  | { readonly id: number; readonly ok: false; readonly message: string };
