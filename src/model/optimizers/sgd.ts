/** Plain stochastic gradient descent: no momentum, nothing carried. */
import type { SgdSpec } from '../../run/model-spec.ts';
import { mul, square, sub } from '../graph/verbs.ts';
import { clipFactor, type OptimizerRule } from './optimizer.ts';
import { learningRateAt } from './schedule.ts';

export const sgd: OptimizerRule<SgdSpec> = ({ schedule, clipNorm }) => ({
  moments: [],
  rateCount: 1,
  rates: (step) => [learningRateAt(schedule, step)],
  update: ({ params, gradient, rates: [rate] }) => {
    const scale = clipNorm > 0 ? mul(rate!, clipFactor(square(gradient), clipNorm)) : rate!;
    return { params: sub(params, mul(gradient, scale)), moments: [] };
  },
});
