/**
 * The weighted mean of a cohort's deltas (DiLoCo, arXiv 2311.08105), in the operation order of the Python reference:
 * f64 sum by ascending worker key, then one multiplication by the reciprocal of the total weight.
 */
import type { Contribution } from '../../run/contribution.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import { addScaled } from '../../tensor/sparse.ts';

export interface MeanOptions {
  /** Length of the flat parameter vector. */
  readonly size: number;
  /** `examples`: a contribution weighs its example count (1 when absent), at most `cap`. `equal`: everyone weighs 1. */
  readonly weights: 'examples' | 'equal';
  /** No single worker weighs more than this. */
  readonly cap: number;
}

/** What one contribution weighs. */
const weightOf = (examples: number | undefined, { weights, cap }: MeanOptions): number =>
  weights === 'equal' ? 1 : Math.min(cap, examples ?? 1);

/** A cohort in the one order every worker sums in: by worker key, then event id. */
export const inOrder = (cohort: readonly Contribution[]): Contribution[] =>
  [...cohort].sort(
    (a, b) => compareCodePoints(a.worker, b.worker) || compareCodePoints(a.eventId, b.eventId),
  );

/** Weighted mean of Δ over the cohort, dense f64[size]; the order of the input does not matter. Throws on an empty one. */
export function meanDelta(cohort: readonly Contribution[], options: MeanOptions): Float64Array {
  if (cohort.length === 0) throw new RangeError('the mean of no contributions is undefined');
  const sum = new Float64Array(options.size);
  let total = 0;
  for (const { delta, examples } of inOrder(cohort)) {
    if (delta.size !== options.size)
      throw new RangeError(`delta of ${delta.size} values, not ${options.size}`);
    const weight = weightOf(examples, options);
    addScaled(sum, delta, weight);
    total += weight;
  }
  const share = 1 / total;
  for (let i = 0; i < sum.length; i++) sum[i] = sum[i]! * share;
  return sum;
}
