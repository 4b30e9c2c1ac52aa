/** Wraps a build of onnxruntime for the trainer threads: tensors, results, rows of data, a check of half precision. */
import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { type OpenStored, storeTokens } from '../model/data/tokens.ts';
import type { Feed, Feeds } from '../model/feeds.ts';
import type { Data } from '../model/forms/form.ts';
import { createGraph } from '../model/graph/builder.ts';
import { type Half, lower } from '../model/graph/lower.ts';
import type { Value } from '../model/graph/rule.ts';
import {
  cast,
  concat,
  flatten,
  gemm,
  less,
  matmul,
  mul,
  reshape,
  slice,
} from '../model/graph/verbs.ts';
import { encodeModel } from '../model/onnx.ts';
import type { Device } from './messages.ts';

/** A build of onnxruntime: for Node.js or for browsers. */
export interface Runtime {
  readonly Tensor: typeof Tensor;
  /**
   * Loads a model without graph optimizations. On WebGPU, outputs in `resident` stay in GPU memory. `constants` are the
   * model's external ones, by name; only Node.js takes them.
   */
  createSession(
    model: Uint8Array,
    device: Device,
    threads: number,
    resident?: readonly string[],
    constants?: Feeds,
  ): Promise<InferenceSession>;
  /** Whether results can be written into tensors of the caller; otherwise each call allocates new ones. */
  readonly writesInPlace: boolean;
}

export type Tensors = Record<string, Tensor>;

export function tensorOf({ Tensor }: Runtime, { elements, shape }: Feed): Tensor {
  if (elements instanceof Float32Array) return new Tensor('float32', elements, shape);
  if (elements instanceof Int32Array) return new Tensor('int32', elements, shape);
  if (elements instanceof BigInt64Array) return new Tensor('int64', elements, shape);
  if (elements instanceof Uint16Array) return new Tensor('float16', elements, shape);
  if (elements instanceof Int8Array) return new Tensor('int8', elements, shape);
  return new Tensor('uint8', elements, shape);
}

export const tensorsOf = (ort: Runtime, feeds: Feeds = {}): Tensors =>
  Object.fromEntries(Object.entries(feeds).map(([name, feed]) => [name, tensorOf(ort, feed)]));

export const vector = ({ Tensor }: Runtime, elements: Float32Array): Tensor =>
  new Tensor('float32', elements, [elements.length]);

/** Returns the elements of an f32 result. */
export function floats(tensor: Tensor | undefined): Float32Array {
  if (!(tensor?.data instanceof Float32Array))
    throw new TypeError('the result is not an f32 tensor');
  return tensor.data;
}

/** Runs a model. Writes the results named in `into` there; returns them and those named in `others`. */
export async function runInto(
  ort: Runtime,
  session: InferenceSession,
  feeds: Tensors,
  {
    into,
    others,
  }: { readonly into: Readonly<Record<string, Float32Array>>; readonly others: readonly string[] },
): Promise<InferenceSession.OnnxValueMapType> {
  const kept = Object.entries(into);
  const own = kept.map(
    ([name, array]) => [name, ort.writesInPlace ? vector(ort, array) : null] as const,
  );
  const rest = others.map((name) => [name, null] as const);
  const results = await session.run(feeds, Object.fromEntries([...own, ...rest]));
  if (!ort.writesInPlace) for (const [name, array] of kept) array.set(floats(results[name]));
  return results;
}

/** The data of a trainer thread: all of it in memory, or windows of a file, read as rows need them. */
export interface DataSource {
  /** Returns the tensors to feed for these rows, and the index of each row in them. */
  at(rows: Int32Array): { readonly tensors: Tensors; readonly rows: Int32Array };
}

interface Reading {
  readonly ort: Runtime;
  readonly openStored: OpenStored;
}

/** Opens the data. On WebGPU each call gets only its rows, since feeding sends all data to the GPU every time. */
export function openSource(
  data: Data | undefined,
  device: Device,
  { ort, openStored }: Reading,
): DataSource {
  if (data?.kind === 'feeds' && device === 'webgpu') {
    const { feeds, window } = data;
    return {
      at: (rows) => {
        const own = Object.entries(feeds).map(([name, feed]) => [
          name,
          takeRows(feed, rows, window),
        ]);
        const tensors = tensorsOf(ort, Object.fromEntries(own));
        return { tensors, rows: rows.map((_, i) => i * window) };
      },
    };
  }
  if (data?.kind !== 'stored') {
    const tensors = tensorsOf(ort, data?.feeds);
    return { at: (rows) => ({ tensors, rows }) };
  }
  const { part, context } = data;
  const reader = openStored(part);
  const window = context + 1;
  return {
    at: (rows) => {
      const tokens = new Int32Array(rows.length * window);
      const counted = new Uint8Array(reader.isMasked ? tokens.length : 0);
      rows.forEach((row, i) => {
        tokens.set(reader.tokens(row, row + window), i * window);
        if (reader.isMasked) counted.set(reader.counted(row, row + window), i * window);
      });
      const corpus = storeTokens(tokens, part.vocabulary);
      const shape = [tokens.length];
      return {
        tensors: {
          corpus: tensorOf(ort, { elements: corpus, shape }),
          ...(reader.isMasked && { counted: tensorOf(ort, { elements: counted, shape }) }),
        },
        rows: rows.map((_, i) => i * window),
      };
    },
  };
}

/** Returns the entries of these rows, one after the other. */
function takeRows({ elements, shape: [, ...inner] }: Feed, rows: Int32Array, window: number): Feed {
  const width = inner.reduce((product, dim) => product * dim, 1);
  const taken = Reflect.construct(elements.constructor, [rows.length * window * width]);
  rows.forEach((row, i) => {
    taken.set(elements.subarray(row * width, (row + window) * width), i * window * width);
  });
  return { elements: taken, shape: [rows.length * window, ...inner] };
}

/** For each type: a number that it rounds to 1, and the result of 300² + 300² in it. */
const PROBES: Readonly<Record<Half, { readonly near: number; readonly large: number }>> = {
  f16: { near: 1 + 2 ** -12, large: Number.POSITIVE_INFINITY },
  bf16: { near: 1 + 2 ** -9, large: 180_224 },
};

/**
 * Throws an error if the device does not really multiply in half precision: it may compute in f32 silently, or turn
 * overflow into finite numbers, which loss scaling must be able to detect.
 */
export async function requireHalf(ort: Runtime, device: Device, half: Half): Promise<void> {
  const { near, large } = PROBES[half];
  const numbers = Float32Array.of(near, near, near, near, 300, 300, 300, 300);
  const { one, many, counts } = await multiply(ort, device, half, numbers).catch((cause) => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`it does not support ${half}: ${reason}`, { cause });
  });
  if (floats(one).some((value) => value !== 2)) throw new Error(`it does not multiply in ${half}`);
  const isLarge = floats(many).every((value) => value === large);
  const areSeen = floats(counts).every((count) => count === (half === 'f16' ? 0 : 1));
  if (!isLarge || !areSeen)
    throw new Error(`it does not report numbers too large for ${half} as infinite`);
}

async function multiply(ort: Runtime, device: Device, half: Half, numbers: Float32Array) {
  const session = await ort.createSession(encodeModel(products(device, half)), device, 1);
  return await session.run({ numbers: vector(ort, numbers) });
}

/**
 * A graph that squares 2 x 2 matrices of numbers near 1 (`one`) and of large ones (`many`). `counts` is 1 if a large
 * square and its product with 0 both count as finite.
 */
function products(target: Device, half: Half) {
  const graph = createGraph();
  const numbers = graph.input('numbers', { dtype: 'f32', shape: [8] });
  graph.products = half;
  const squares = (from: number): readonly Value[] => {
    const flat = slice(numbers, 0, from, from + 4);
    const [matrix, stack] = [reshape(flat, [2, 2]), reshape(flat, [1, 2, 2])];
    return [gemm(matrix, matrix, { transB: true }), matmul(stack, stack, { transA: true })];
  };
  const join = ([a, b]: readonly Value[]) => concat([flatten(a!), flatten(b!)], 0);
  const many = join(squares(4));
  graph.output('one', join(squares(0)));
  graph.output('many', many);
  const below = (value: Value) => cast(less(value, 3e38), 'f32');
  graph.output('counts', mul(below(many), below(mul(many, 0))));
  return lower(graph, 'half', { target });
}
