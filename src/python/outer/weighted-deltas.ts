/**
 * The weighted mean of whole deltas as the Python reference takes it: in the order given, f64, one multiplication by the
 * reciprocal of the total weight. Unlike `mean.ts` it knows neither workers nor chunks.
 */

import { arranged } from '../../formats/arithmetic.ts';
import type { Params } from '../../tensor/params.ts';

/** A delta with its weight, for `aggregateWeightedDeltas`. */
export interface WeightedDelta {
  readonly delta: Params;
  /** Above 0. */
  readonly weight: number;
  /** What an error calls it. */
  readonly name?: string;
}

/**
 * The mean, with tensors in the order of the first delta. Throws a ConfigError (`state/other-model`) when a delta is of
 * another model, a RangeError when there is none or a weight is not above 0.
 *
 * @example
 * ```ts
 * import { aggregateWeightedDeltas, createLayout } from 'nostrain/python';
 *
 * const layout = createLayout([{ name: 'w', shape: [1] }]);
 * const mean = aggregateWeightedDeltas([
 *   { delta: { layout, values: Float64Array.of(4) }, weight: 3 },
 *   { delta: { layout, values: Float64Array.of(0) }, weight: 1 },
 * ]);
 * mean.values; // => Float64Array.of(3)
 * ```
 */
export function aggregateWeightedDeltas(deltas: readonly WeightedDelta[]): Params {
  const [first, ...others] = deltas;
  if (first === undefined) throw new RangeError('the mean of no deltas is undefined');
  if (!deltas.every(({ weight }) => weight > 0)) throw new RangeError('weights are above 0');
  const { layout } = first.delta;
  const sum = new Float64Array(first.delta.values);
  for (let i = 0; i < sum.length; i++) sum[i] = sum[i]! * first.weight;
  let total = first.weight;
  for (const { delta, weight, name } of others) {
    const { values } = arranged(delta, layout, name);
    for (let i = 0; i < sum.length; i++) sum[i] = sum[i]! + values[i]! * weight;
    total += weight;
  }
  const share = 1 / total;
  for (let i = 0; i < sum.length; i++) sum[i] = sum[i]! * share;
  return { layout, values: sum };
}

/**
 * The mean of deltas that weigh the same. Throws as `aggregateWeightedDeltas` does.
 *
 * @example
 * ```ts
 * import { aggregateDeltas, createLayout } from 'nostrain/python';
 *
 * const layout = createLayout([{ name: 'w', shape: [1] }]);
 * const deltas = [4, 0].map((value) => ({ layout, values: Float64Array.of(value) }));
 * aggregateDeltas(deltas).values; // => Float64Array.of(2)
 * ```
 */
export const aggregateDeltas = (deltas: readonly Params[]): Params =>
  aggregateWeightedDeltas(deltas.map((delta) => ({ delta, weight: 1 })));
