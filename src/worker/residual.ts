/** Error feedback (arXiv 2508.15706): what compression dropped is added to the next delta, exactly. */
import type { Vector } from '../tensor/params.ts';
import type { SparseVector } from '../tensor/sparse.ts';

/** before - after + residual, f64. */
export function deltaWithResidual(
  before: Vector,
  after: Vector,
  residual: Float64Array,
): Float64Array {
  const delta = new Float64Array(before.length);
  for (let i = 0; i < delta.length; i++) delta[i] = before[i]! - after[i]! + residual[i]!;
  return delta;
}

/** delta - sent, in place: the delta becomes the new residual. Returns the share of its energy that was not sent. */
export function takeSent(delta: Float64Array, { indices, values }: SparseVector): number {
  const before = energy(delta);
  for (let i = 0; i < indices.length; i++) delta[indices[i]!] = delta[indices[i]!]! - values[i]!;
  return before === 0 ? 0 : energy(delta) / before;
}

function energy(vector: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < vector.length; i++) sum += vector[i]! * vector[i]!;
  return sum;
}
