/**
 * The outer step in the wire's sign and in the shape that the Python reference's library gives it: the delta is the improvement,
 * after - before, and is added. Workers use the core's `nesterov.ts`, which differs from this in the sign of zeros alone.
 */

import type { OuterSettings } from '../../consensus/outer/nesterov.ts';
import { arranged } from '../../formats/arithmetic.ts';
import type { Params } from '../../tensor/params.ts';

/** What `nesterovOuterStep` takes beside state and delta. */
export interface OuterStepOptions extends Partial<OuterSettings> {
  /** Momentum after the step before; zeros when absent. */
  readonly previousMomentum?: Params | undefined;
}

/** What `nesterovOuterStep` gives. */
export interface OuterStepResult {
  /** As it was given: the improvement, after - before. */
  readonly aggregatedDelta: Params;
  /** To give to the next step. */
  readonly momentumState: Params;
  /** How far the step goes. */
  readonly updateDelta: Params;
  readonly nextState: Params;
}

/**
 * One outer step: v <- v * momentum + Δ, update = (Δ + v * momentum) * learningRate, next = base + update, in f64 (DiLoCo, arXiv
 * 2311.08105, section 2). Learning rate 0.7 and momentum 0.9 unless given. Throws a RangeError for a rate not above 0 or a
 * momentum outside [0, 1), a ConfigError (`state/other-model`) when a part is of another model.
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
  const improvement = arranged(delta, layout, 'the delta').values;
  const before = previousMomentum && arranged(previousMomentum, layout, 'the momentum').values;
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
