/**
 * The outer step in the wire's sign, as the Python reference takes it: the delta is the improvement, after - before, and is
 * added. Workers use `nesterov.ts`, which differs from this in the sign of zeros alone.
 */

import type { OuterSettings } from '../../consensus/outer/nesterov.ts';
import type { Params } from '../../tensor/params.ts';
import { arranged } from '../formats/arithmetic.ts';

export interface ImprovementStep {
  readonly next: Params;
  /** How far the step goes: next - base. */
  readonly update: Params;
  /** To give to the next step. */
  readonly momentum: Params;
}

/** v <- v * momentum + Δ; θ <- θ + (Δ + v * momentum) * rate, in f64. Throws when a part is of another model. */
export function improvementStep(
  base: Params,
  delta: Params,
  { learningRate, momentum }: OuterSettings,
  previous?: Params,
): ImprovementStep {
  const { layout } = base;
  const improvement = arranged(delta, layout, 'the delta').values;
  const before = previous && arranged(previous, layout, 'the momentum').values;
  const next = new Float64Array(base.values);
  const update = new Float64Array(layout.size);
  const velocity = new Float64Array(layout.size);
  for (let i = 0; i < next.length; i++) {
    const v = (before === undefined ? 0 : before[i]!) * momentum + improvement[i]!;
    velocity[i] = v;
    update[i] = (improvement[i]! + v * momentum) * learningRate;
    next[i] = next[i]! + update[i]!;
  }
  const whole = (values: Float64Array): Params => ({ layout, values });
  return { next: whole(next), update: whole(update), momentum: whole(velocity) };
}
