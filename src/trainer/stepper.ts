/** Training in one thread: many steps in one Loop; on WebGPU one step per call, with the state in GPU memory. */
import type { InferenceSession, Tensor } from 'onnxruntime-common';
import type { Feed, Feeds } from '../model/feeds.ts';
import { type DType, encodeModel, type OnnxGraph } from '../model/onnx.ts';
import { halfToNumber } from '../tensor/dtype.ts';
import type { Advance, Device, SingleTraining, TrainerCalls } from './messages.ts';
import {
  type DataSource,
  floats,
  type Runtime,
  type Tensors,
  tensorOf,
  vector,
} from './runtime.ts';

/** Inputs of training: the rows of the shard and the frozen tensors of the model. */
export interface ShardFeeds {
  readonly source: DataSource;
  readonly frozen: Tensors;
}

/** The calls of a trainer thread that update the state. */
export type Stepper = Pick<TrainerCalls, 'begin' | 'advance' | 'finish'>;

export async function createSingleStepper(
  training: SingleTraining,
  device: Device,
  threads: number,
  { source, frozen }: ShardFeeds,
  ort: Runtime,
): Promise<Stepper> {
  const { model, batch, rateCount } = training;
  const { Tensor } = ort;
  const session = await ort.createSession(model, device, threads);
  let state: Tensors = {};
  /** Buffers for the results; swapped with `state` after every run. */
  let spare: Tensors = {};

  const run = async ({ rates, rows }: Advance): Promise<Float32Array> => {
    const steps = rows.length / batch;
    const selected = source.at(rows);
    const feeds = {
      ...selected.tensors,
      steps: new Tensor('int64', BigInt64Array.of(BigInt(steps)), []),
      rates: new Tensor('float32', rates, [steps, rateCount]),
      rows: new Tensor('int32', selected.rows, [steps, batch]),
    };
    const fetches: Record<string, Tensor | null> = { losses: null };
    for (const name of training.state) fetches[`${name}.next`] = spare[name] ?? null;
    const results = await session.run({ ...state, ...frozen, ...feeds }, fetches);
    if (ort.writesInPlace) [state, spare] = [spare, state];
    else for (const name of training.state) state[name] = results[`${name}.next`]!;
    return floats(results.losses);
  };

  return {
    begin: async (vectors) => {
      state = Object.fromEntries(training.state.map((name, i) => [name, vector(ort, vectors[i]!)]));
      if (!ort.writesInPlace) return;
      spare = Object.fromEntries(
        training.state.map((name, i) => [name, vector(ort, new Float32Array(vectors[i]!.length))]),
      );
    },
    advance: async (task) => {
      const start = performance.now();
      const losses = await run(task);
      return { losses, seconds: (performance.now() - start) / 1000 };
    },
    finish: async () => {
      const vectors = training.state.map((name) => floats(state[name]));
      state = {};
      spare = {};
      return vectors;
    },
  };
}

/** Copies tensors between this process and GPU memory. */
export interface GpuMemory {
  upload(tensor: Tensor): Promise<Tensor>;
  /** Downloads a tensor of f32 elements. */
  download(tensor: Tensor): Promise<Float32Array>;
}

const TYPES: Readonly<Record<string, DType>> = { float32: 'f32', int32: 'i32', uint8: 'u8' };

/** Opens copying to and from the GPU. Its programs are loaded when first needed, one per type and rank. */
export function openGpuMemory(ort: Runtime): GpuMemory {
  const sessions = new Map<string, Promise<InferenceSession>>();
  const copy = async (tensor: Tensor, resident: readonly string[]): Promise<Tensor> => {
    const { type, dims } = tensor;
    const key = [type, dims.length, ...resident].join();
    const model = () => encodeModel(copying(TYPES[type]!, dims.length));
    const session = sessions.get(key) ?? ort.createSession(model(), 'webgpu', 1, resident);
    sessions.set(key, session);
    const { copied } = await (await session).run({ tensor });
    return copied!;
  };
  return {
    upload: (tensor) => copy(tensor, ['copied']),
    download: async (tensor) => floats(await copy(tensor, [])),
  };
}

/** A graph that copies a tensor with Expand, the only operator that copies every type. */
function copying(dtype: DType, rank: number): OnnxGraph {
  const shape = Array.from({ length: rank }, (_, i) => `dim.${i}`);
  const none = { name: 'none', dtype: 'i64', shape: [0], bytes: new Uint8Array(0) } as const;
  return {
    name: 'copy',
    nodes: [
      {
        type: 'Expand',
        inputs: ['tensor', 'none'],
        outputs: ['copied'],
        attributes: {},
        domain: '',
      },
    ],
    constants: [none],
    inputs: [{ name: 'tensor', dtype, shape }],
    outputs: [{ name: 'copied', dtype, shape }],
  };
}

/** Uploads the frozen tensors to the GPU, in the types that `lower` expects there. */
export async function uploadFrozen(
  ort: Runtime,
  feeds: Feeds,
  memory: GpuMemory,
): Promise<Tensors> {
  const uploaded: Tensors = {};
  for (const [name, feed] of Object.entries(feeds)) {
    uploaded[name] = await memory.upload(tensorOf(ort, gpuFeedOf(feed)));
  }
  return uploaded;
}

function gpuFeedOf({ elements, shape }: Feed): Feed {
  if (elements instanceof Uint16Array) {
    return { elements: Float32Array.from(elements, halfToNumber), shape };
  }
  if (elements instanceof Int8Array) {
    return { elements: Uint8Array.from(elements, (value) => value + 128), shape };
  }
  return { elements, shape };
}

/** Creates a stepper with its state in GPU memory; `frozen` must be there already. */
export async function createResidentStepper(
  { model, batch, rateCount, state: names }: SingleTraining,
  { source, frozen }: ShardFeeds,
  memory: GpuMemory,
  ort: Runtime,
): Promise<Stepper> {
  const session = await ort.createSession(model, 'webgpu', 1, ['loss', ...names.map(nextOf)]);
  let state: Tensors = {};

  const step = async (rates: Float32Array, rows: Int32Array): Promise<Tensor> => {
    const selected = source.at(rows);
    const feeds = {
      ...selected.tensors,
      rates: new ort.Tensor('float32', rates),
      rows: new ort.Tensor('int32', selected.rows),
    };
    const { loss, ...after } = await session.run({ ...state, ...frozen, ...feeds });
    drop(state);
    state = Object.fromEntries(names.map((name) => [name, after[nextOf(name)]!]));
    return loss!;
  };

  return {
    begin: async (vectors) => {
      drop(state);
      const uploaded: Tensors = {};
      for (const [i, name] of names.entries()) {
        uploaded[name] = await memory.upload(vector(ort, vectors[i]!));
      }
      state = uploaded;
    },
    advance: async ({ rates, rows }) => {
      const start = performance.now();
      const pending: Tensor[] = [];
      for (let i = 0; i < rows.length / batch; i++) {
        const selected = rates.subarray(i * rateCount, (i + 1) * rateCount);
        pending.push(await step(selected, rows.subarray(i * batch, (i + 1) * batch)));
      }
      const losses = new Float32Array(pending.length);
      for (const [i, loss] of pending.entries()) {
        losses.set(await memory.download(loss), i);
        loss.dispose();
      }
      return { losses, seconds: (performance.now() - start) / 1000 };
    },
    finish: async () => {
      const vectors: Float32Array[] = [];
      for (const name of names) vectors.push(await memory.download(state[name]!));
      drop(state);
      state = {};
      return vectors;
    },
  };
}

const nextOf = (name: string): string => `${name}.next`;

function drop(tensors: Tensors): void {
  for (const tensor of Object.values(tensors)) tensor.dispose();
}
