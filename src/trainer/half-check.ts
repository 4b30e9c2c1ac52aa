/**
 * Whether a device really multiplies in half precision: both kinds of products that training makes, of numbers whose roundings tell. A device may
 * compute in f32 without a word, or make finite numbers of those that are too large, which scaling of the loss has to see.
 */
import { createGraph } from '../model/graph/builder.ts';
import type { Half } from '../model/graph/half.ts';
import { lower } from '../model/graph/lower.ts';
import type { Value } from '../model/graph/value.ts';
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
import { floats, type Runtime, vector } from './runtime.ts';

/** A number that half precision rounds to 1, and the sum of two squares of 300 there. */
const TELLING: Readonly<Record<Half, { readonly near: number; readonly large: number }>> = {
  f16: { near: 1 + 2 ** -12, large: Number.POSITIVE_INFINITY },
  bf16: { near: 1 + 2 ** -9, large: 180_224 },
};

/** Throws in words where the device does anything else. */
export async function requireHalf(ort: Runtime, device: Device, half: Half): Promise<void> {
  const { near, large } = TELLING[half];
  const numbers = Float32Array.of(near, near, near, near, 300, 300, 300, 300);
  const { one, many, counts } = await multiply(ort, device, half, numbers).catch((cause) => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`it has no ${half}: ${reason}`, { cause });
  });
  if (floats(one).some((value) => value !== 2)) throw new Error(`it does not multiply in ${half}`);
  const isLarge = floats(many).every((value) => value === large);
  const areSeen = floats(counts).every((count) => count === (half === 'f16' ? 0 : 1));
  if (!isLarge || !areSeen) throw new Error(`numbers too large for ${half} do not stand out there`);
}

async function multiply(ort: Runtime, device: Device, half: Half, numbers: Float32Array) {
  const session = await ort.createSession(encodeModel(products(device, half)), device, 1);
  return await session.run({ numbers: vector(ort, numbers) });
}

/** Squares of two matrices of 2 x 2: of numbers near 1, of large ones; and whether those and 0 times those are below a bound. */
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
