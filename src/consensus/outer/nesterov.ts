/**
 * The outer optimizer of DiLoCo (arXiv 2311.08105, section 2): SGD with Nesterov momentum on the mean delta.
 * Accumulates in f64, stores in the parameters' type.
 */
import type { Vector } from '../../tensor/params.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import type { Mean } from '../aggregate/mean.ts';

/** The outer step of a plan: how far the shared model follows the mean delta. */
export interface OuterSettings {
  /** Above 0. */
  readonly learningRate: number;
  /** In [0, 1). */
  readonly momentum: number;
}

export interface OuterStep {
  readonly values: Vector;
  readonly momentum: Vector;
}

/** v <- momentum * v + Δ; θ <- θ - rate * (Δ + momentum * v), for the chunks in `moved` only. Pure. */
export function nesterovStep(
  values: Vector,
  velocity: Vector,
  { mean: delta, moved }: Mean,
  { learningRate, momentum }: OuterSettings,
): OuterStep {
  const next = values.slice();
  const nextVelocity = velocity.slice();
  for (const chunk of moved) {
    const end = Math.min(values.length, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) {
      const v = velocity[i]! * momentum + delta[i]!;
      nextVelocity[i] = v;
      next[i] = values[i]! - (delta[i]! + v * momentum) * learningRate;
    }
  }
  return { values: next, momentum: nextVelocity };
}
