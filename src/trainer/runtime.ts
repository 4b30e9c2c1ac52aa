/** What a trainer thread needs of an onnxruntime, whichever build it is; and tensors and results in its terms. */
import type { InferenceSession, Tensor } from 'onnxruntime-common';
import type { Feed, Feeds } from '../model/forms/form.ts';
import type { Device } from './messages.ts';

/** One build of onnxruntime: that of Node.js, or the one for browsers. */
export interface Runtime {
  readonly Tensor: typeof Tensor;
  /**
   * Loads a model. The graphs are lowered as they should run: nothing rewrites them. Outputs named as `resident` stay in the memory of
   * a GPU with WebGPU.
   */
  createSession(
    model: Uint8Array,
    device: Device,
    threads: number,
    resident?: readonly string[],
  ): Promise<InferenceSession>;
  /** True where results are written into tensors that the caller gives; else every call makes new ones. */
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

/** The elements of an f32 result. */
export function floats(tensor: Tensor | undefined): Float32Array {
  if (!(tensor?.data instanceof Float32Array)) throw new TypeError('a model gave no f32 result');
  return tensor.data;
}

/** Runs a model. Results named in `into` are written there; they and the others asked for are returned. */
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
