/** onnxruntime sessions and tensors as the trainer threads use them. */
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { Device, Feed, Feeds } from './messages.ts';

export type Tensors = Record<string, Tensor>;

/** Loads a model. */
export const createSession = (
  model: Uint8Array,
  device: Device,
  threads: number,
): Promise<InferenceSession> =>
  InferenceSession.create(model, {
    executionProviders: [device],
    intraOpNumThreads: threads,
    executionMode: 'sequential',
    // the graphs are lowered as they should run; rewriting them would undo the order of some products
    graphOptimizationLevel: 'disabled',
    // a third less memory for the same speed
    enableMemPattern: false,
    logSeverityLevel: 3,
    // waiting threads sleep: spinning ones steal from everybody else on a shared machine
    extra: { session: { intra_op: { allow_spinning: '0' } } },
  });

export function tensorOf({ elements, shape }: Feed): Tensor {
  if (elements instanceof Float32Array) return new Tensor('float32', elements, shape);
  if (elements instanceof Int32Array) return new Tensor('int32', elements, shape);
  if (elements instanceof BigInt64Array) return new Tensor('int64', elements, shape);
  if (elements instanceof Uint16Array) return new Tensor('float16', elements, shape);
  if (elements instanceof Int8Array) return new Tensor('int8', elements, shape);
  return new Tensor('uint8', elements, shape);
}

export const tensorsOf = (feeds: Feeds = {}): Tensors =>
  Object.fromEntries(Object.entries(feeds).map(([name, feed]) => [name, tensorOf(feed)]));

export const vector = (elements: Float32Array): Tensor =>
  new Tensor('float32', elements, [elements.length]);

/** The elements of an f32 result. */
export function floats(tensor: Tensor | undefined): Float32Array {
  if (!(tensor?.data instanceof Float32Array)) throw new TypeError('a model gave no f32 result');
  return tensor.data;
}
