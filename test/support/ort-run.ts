/** Runs a recorded graph or an encoded model through onnxruntime, on one thread unless told otherwise. */

import {
  type DType,
  encodeModel,
  type Graph,
  type GraphTarget,
  lower,
  sizeOf,
} from 'nostrain/model';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { Shape } from '../../src/model/onnx.ts';

export interface TestTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly elements: ArrayLike<number>;
}

export type Results = Readonly<Record<string, Float64Array>>;
export type Run = (feeds: Readonly<Record<string, TestTensor>>) => Promise<Results>;

/** A loaded model; results come back as f64 whatever their type. */
export async function load(model: Uint8Array, threads = 1): Promise<Run> {
  const session = await InferenceSession.create(model, {
    executionProviders: ['cpu'],
    intraOpNumThreads: threads,
    executionMode: 'sequential',
    graphOptimizationLevel: 'disabled',
    logSeverityLevel: 3,
    extra: { session: { intra_op: { allow_spinning: '0' } } },
  });
  return async (feeds) => {
    const tensors = Object.entries(feeds).map(([name, tensor]) => [name, ortTensor(tensor)]);
    const results = await session.run(Object.fromEntries(tensors));
    return Object.fromEntries(
      Object.entries(results).map(([name, { data }]) => [
        name,
        Float64Array.from(Array.from(data, Number)),
      ]),
    );
  };
}

export const loadGraph = (graph: Graph, target: GraphTarget = 'cpu'): Promise<Run> =>
  load(encodeModel(lower(graph, 'test', { target })));

function ortTensor({ dtype, shape, elements }: TestTensor): Tensor {
  if (elements.length !== sizeOf(shape)) throw new TypeError(`[${shape}] is not filled`);
  const numbers = Array.from(elements);
  switch (dtype) {
    case 'f32':
      return new Tensor('float32', Float32Array.from(numbers), shape);
    case 'f64':
      return new Tensor('float64', Float64Array.from(numbers), shape);
    case 'i32':
      return new Tensor('int32', Int32Array.from(numbers), shape);
    case 'i64':
      return new Tensor('int64', BigInt64Array.from(numbers, BigInt), shape);
    case 'i8':
      return new Tensor('int8', Int8Array.from(numbers), shape);
    case 'f16':
      return new Tensor('float16', Uint16Array.from(numbers), shape);
    case 'u8':
      return new Tensor('uint8', Uint8Array.from(numbers), shape);
    case 'bool':
      return new Tensor('bool', Uint8Array.from(numbers), shape);
  }
}
