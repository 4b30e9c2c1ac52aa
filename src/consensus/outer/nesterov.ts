/**
 * The outer step: Nesterov momentum with the look-ahead folded in (DiLoCo, arXiv 2311.08105, section 2).
 * Rate 1 and momentum 0 is plain averaging. Accumulates in f64; stores in the storage type of the parameters.
 */
import { type Vector, zerosLike } from '../../tensor/params.ts';

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

/** v <- momentum * v + Δ; θ <- θ - rate * (Δ + momentum * v). Inputs are left as they are. */
export function nesterovStep(
  values: Vector,
  velocity: Vector,
  delta: Float64Array,
  { learningRate, momentum }: OuterSettings,
): OuterStep {
  const next = zerosLike(values);
  const nextVelocity = zerosLike(values);
  for (let i = 0; i < values.length; i++) {
    const v = velocity[i]! * momentum + delta[i]!;
    nextVelocity[i] = v;
    next[i] = values[i]! - (delta[i]! + v * momentum) * learningRate;
  }
  return { values: next, momentum: nextVelocity };
}
