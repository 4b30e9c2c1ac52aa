/**
 * Means and outer steps in the operation order of the Python reference: it multiplies by the reciprocal of the total
 * weight, while the core divides (docs/decisions/0002-mean-by-reciprocal.md).
 */
import { type MeanRule, sumRows } from '../consensus/aggregate/mean.ts';
import type { OuterSettings } from '../consensus/outer/nesterov.ts';
import { reorderTensors } from '../formats/arithmetic.ts';
import type { Params } from '../tensor/params.ts';
import { CHUNK_LENGTH } from '../tensor/partial-vector.ts';

/** The weighted mean in the operation order of the Python reference. */
export const meanByReciprocal: MeanRule = (rows, options) => {
  const { sum, moved, divisorOf } = sumRows(rows, options);
  for (const chunk of moved) {
    const end = Math.min(options.size, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) sum[i] = sum[i]! * (1 / divisorOf(i));
  }
  return { mean: sum, moved };
};

/** Options of `nesterovOuterStep`. */
export interface OuterStepOptions extends Partial<OuterSettings> {
  /** Momentum after the previous step; default zeros. */
  readonly previousMomentum?: Params | undefined;
}

/** The result of `nesterovOuterStep`. */
export interface OuterStepResult {
  /** The given delta: the improvement, after - before. */
  readonly aggregatedDelta: Params;
  /** Momentum to pass to the next step. */
  readonly momentumState: Params;
  /** The change of the state. */
  readonly updateDelta: Params;
  readonly nextState: Params;
}

/**
 * Takes one outer step in f64: v <- v * momentum + Δ, next = base + (Δ + v * momentum) * learningRate, where Δ is
 * after - before (DiLoCo, arXiv 2311.08105, section 2). Defaults: learning rate 0.7, momentum 0.9. Throws a RangeError
 * for a rate not above 0 or a momentum outside [0, 1), a ConfigError (`state/other-model`) if a part belongs to another
 * model.
 *
 * @example
 * ```ts
 * import { createLayout, nesterovOuterStep } from 'nostrain/python';
 *
 * const layout = createLayout([{ name: 'w', shape: [1] }]);
 * const base = { layout, values: Float64Array.of(10) };
 * const delta = { layout, values: Float64Array.of(4) };
 * const step = nesterovOuterStep(base, delta, { learningRate: 0.5, momentum: 0.5 });
 * step.momentumState.values; // => Float64Array.of(4)
 * step.updateDelta.values; // => Float64Array.of(3)
 * step.nextState.values; // => Float64Array.of(13)
 * ```
 */
export function nesterovOuterStep(
  base: Params,
  delta: Params,
  { learningRate = 0.7, momentum = 0.9, previousMomentum }: OuterStepOptions = {},
): OuterStepResult {
  if (!(learningRate > 0)) throw new RangeError(`learning rate ${learningRate} is not above 0`);
  if (!(momentum >= 0 && momentum < 1)) {
    throw new RangeError(`momentum ${momentum} is not from 0 to below 1`);
  }
  const { layout } = base;
  const improvement = reorderTensors(delta, layout, 'the delta').values;
  const before =
    previousMomentum && reorderTensors(previousMomentum, layout, 'the momentum').values;
  const next = new Float64Array(base.values);
  const update = new Float64Array(layout.size);
  const velocity = new Float64Array(layout.size);
  for (let i = 0; i < next.length; i++) {
    const v = (before === undefined ? 0 : before[i]!) * momentum + improvement[i]!;
    velocity[i] = v;
    update[i] = (improvement[i]! + v * momentum) * learningRate;
    next[i] = next[i]! + update[i]!;
  }
  return {
    aggregatedDelta: delta,
    momentumState: { layout, values: velocity },
    updateDelta: { layout, values: update },
    nextState: { layout, values: next },
  };
}

/** A delta with its weight, for `aggregateWeightedDeltas`. */
export interface WeightedDelta {
  readonly delta: Params;
  /** Weight, above 0. */
  readonly weight: number;
  /** Name of the delta in errors. */
  readonly name?: string;
}

/**
 * Returns the weighted mean of deltas, with tensors in the order of the first delta. Throws a ConfigError
 * (`state/other-model`) if a delta belongs to another model, a RangeError if there are no deltas or a weight is not
 * above 0.
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
  if (!deltas.every(({ weight }) => weight > 0)) throw new RangeError('weights must be above 0');
  const { layout } = first.delta;
  const sum = new Float64Array(first.delta.values);
  for (let i = 0; i < sum.length; i++) sum[i] = sum[i]! * first.weight;
  let total = first.weight;
  for (const { delta, weight, name } of others) {
    const { values } = reorderTensors(delta, layout, name);
    for (let i = 0; i < sum.length; i++) sum[i] = sum[i]! + values[i]! * weight;
    total += weight;
  }
  const share = 1 / total;
  for (let i = 0; i < sum.length; i++) sum[i] = sum[i]! * share;
  return { layout, values: sum };
}

/**
 * Returns the mean of deltas with equal weights. Throws like `aggregateWeightedDeltas`.
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
