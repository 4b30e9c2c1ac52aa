/**
 * Training on WebGPU, which has no Loop: one step after the other, whose state stays in the memory of the GPU and is copied back once
 * an inner phase is over. So do losses, until the last step of a call has been asked for.
 */
import type { InferenceSession, Tensor } from 'onnxruntime-common';
import type { Feed, Feeds } from '../model/forms/form.ts';
import type { DType, OnnxGraph } from '../model/onnx.ts';
import { encodeModel } from '../model/onnx.ts';
import { halfToNumber } from '../tensor/dtype.ts';
import type { SingleTraining } from './messages.ts';
import { floats, type Runtime, type Tensors, tensorOf, vector } from './runtime.ts';
import type { ShardFeeds, Stepper } from './single.ts';

/** Copies between the memory of this process and that of the GPU. */
export interface GpuMemory {
  upload(tensor: Tensor): Promise<Tensor>;
  /** Of f32 elements. */
  download(tensor: Tensor): Promise<Float32Array>;
}

const TYPES: Readonly<Record<string, DType>> = { float32: 'f32', int32: 'i32', uint8: 'u8' };

/** Programs that copy are loaded when they are first needed, one for every type and rank. */
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

/** Expand, as the only operator that copies every type. */
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

/** Frozen tensors on the GPU, in the types that `lower` holds them in there. */
export async function uploadFrozen(
  ort: Runtime,
  feeds: Feeds,
  memory: GpuMemory,
): Promise<Tensors> {
  const held: Tensors = {};
  for (const [name, feed] of Object.entries(feeds)) {
    held[name] = await memory.upload(tensorOf(ort, asHeld(feed)));
  }
  return held;
}

function asHeld({ elements, shape }: Feed): Feed {
  if (elements instanceof Uint16Array) {
    return { elements: Float32Array.from(elements, halfToNumber), shape };
  }
  if (elements instanceof Int8Array) {
    return { elements: Uint8Array.from(elements, (value) => value + 128), shape };
  }
  return { elements, shape };
}

/** `frozen` is on the GPU. */
export async function createResidentStepper(
  { model, batch, rateCount, state: names }: SingleTraining,
  { source, frozen }: ShardFeeds,
  memory: GpuMemory,
  ort: Runtime,
): Promise<Stepper> {
  const session = await ort.createSession(model, 'webgpu', 1, ['loss', ...names.map(nextOf)]);
  let state: Tensors = {};

  const step = async (rates: Float32Array, rows: Int32Array): Promise<Tensor> => {
    const own = source.at(rows);
    const feeds = {
      ...own.tensors,
      rates: new ort.Tensor('float32', rates),
      rows: new ort.Tensor('int32', own.rows),
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
        const own = rates.subarray(i * rateCount, (i + 1) * rateCount);
        pending.push(await step(own, rows.subarray(i * batch, (i + 1) * batch)));
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
