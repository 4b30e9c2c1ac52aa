/** What the main thread asks a trainer thread, and what comes back. */
import type { Data, DataName, Feed, Feeds } from '../model/forms/form.ts';
import type { Half } from '../model/graph/lower.ts';
import type { RangeUpdate } from '../model/training-program.ts';
import type { TensorSlot } from '../tensor/params.ts';

/** Where graphs run. */
export type Device = 'cpu' | 'cuda' | 'webgpu';

/** What every trainer thread gets, however it trains. */
export interface OpenRequest {
  readonly device: Device;
  readonly threads: number;
  readonly data: Readonly<Partial<Record<DataName, Data>>>;
  /** The model's frozen tensors, the same for every run. */
  readonly frozen: Feeds;
  readonly evaluate: Uint8Array;
  readonly forward: Uint8Array;
  /** Rows per run of `evaluate`. */
  readonly rows: number;
  readonly training: SingleTraining | ReplicaTraining;
  /** What products of the steps are in, where not in f32. */
  readonly half?: Half;
}

/** One thread takes every step alone, inside onnxruntime as far as the device can. */
export interface SingleTraining {
  readonly kind: 'single';
  /** A Loop over many steps; on WebGPU one step, which is called again and again. */
  readonly model: Uint8Array;
  /** Names of the state inputs, `params` first, each replaced by the output `<name>.next`. */
  readonly state: readonly string[];
  readonly batch: number;
  readonly rateCount: number;
}

/** Several threads, called replicas, share every step. */
export interface ReplicaTraining {
  readonly kind: 'replica';
  readonly replica: number;
  readonly replicas: number;
  /** Of one part of the batch. */
  readonly gradient: Uint8Array;
  readonly combine: Uint8Array;
  readonly updates: readonly RangeUpdate[];
  readonly state: readonly string[];
  readonly parts: number;
  readonly rowsPerPart: number;
  readonly rateCount: number;
  readonly clipNorm: number;
  /** Only some tokens count: parts weigh as many as count in them. */
  readonly masked: boolean;
  readonly shared: SharedState;
}

/** Memory that all replicas see. */
export interface SharedState {
  /** See `replica.ts`. */
  readonly control: Int32Array<SharedArrayBuffer>;
  /** Parameters and moments. */
  readonly state: readonly Float32Array<SharedArrayBuffer>[];
  /** The gradient of every part. */
  readonly gradients: readonly Float32Array<SharedArrayBuffer>[];
  /** The loss of every part. */
  readonly losses: Float32Array<SharedArrayBuffer>;
  /** How many tokens of every part count, where only some do. */
  readonly counts: Float32Array<SharedArrayBuffer>;
  /** The sum of squares of every range of the combined gradient. */
  readonly squares: Float32Array<SharedArrayBuffer>;
}

/** How the held parameters continue texts. */
export interface ReadingRequest {
  readonly vocabulary: number;
  readonly layers: number;
  readonly cached: { readonly heads: number; readonly size: number };
  /** The longest text. */
  readonly capacity: number;
  /** By the number of tokens that they read at a time. */
  readonly programs: ReadonlyMap<number, Uint8Array>;
  /** Where tensors lie in the parameters. */
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

/** One of each per row. */
export interface RowLosses {
  readonly losses: Float32Array;
  /** How many tokens of the row count, where only some do; else 1. */
  readonly counts: Float32Array;
  /** 1 where the model has the row right, of models that are right or wrong. */
  readonly hits?: Float32Array;
}

/** Everything a thread is asked, by name. */
export interface TrainerCalls {
  open(request: OpenRequest): Promise<void>;
  /** Sets the state that `advance` moves; replicas find it in shared memory instead. */
  begin(vectors: readonly Float32Array[]): Promise<void>;
  advance(task: Advance): Promise<Advanced>;
  /** Gives the state back. */
  finish(): Promise<readonly Float32Array[]>;
  /** Sets the parameters that `evaluate` and `forward` read. */
  hold(params: Float32Array): Promise<void>;
  /** The number of rows is a multiple of `OpenRequest.rows`. */
  evaluate(ask: { readonly on: DataName; readonly rows: Int32Array }): Promise<RowLosses>;
  forward(inputs: Feed): Promise<Float32Array>;
  /** Before `read`, and again when other parameters are held. */
  openReader(request: ReadingRequest): Promise<void>;
  /** Logits after these tokens, which begin a text or follow those of the last call. */
  read(ask: { readonly tokens: Int32Array; readonly begins: boolean }): Promise<Float32Array>;
}

export type CallName = keyof TrainerCalls;
export type AskOf<K extends CallName> = Parameters<TrainerCalls[K]>[0];
export type AnswerTo<K extends CallName> = Awaited<ReturnType<TrainerCalls[K]>>;

export type Ask = {
  readonly [K in CallName]: { readonly id: number; readonly call: K; readonly ask: AskOf<K> };
}[CallName];

export type Answer =
  | { readonly id: number; readonly ok: true; readonly answer: AnswerTo<CallName> }
  | { readonly id: number; readonly ok: false; readonly message: string };
