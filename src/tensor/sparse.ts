/** Some values of a vector, by ascending index; every other value is zero. */
import type { Vector } from './params.ts';

export interface SparseVector {
  /** Length of the whole vector. */
  readonly size: number;
  /** Strictly ascending, each below `size`. */
  readonly indices: Uint32Array;
  /** One value per index. */
  readonly values: Float64Array;
}

/** target += weight * sparse, in f64, by ascending index. */
export function addScaled(target: Vector, { indices, values }: SparseVector, weight: number): void {
  for (let i = 0; i < indices.length; i++) {
    const at = indices[i]!;
    target[at] = target[at]! + values[i]! * weight;
  }
}
