/** Plain stochastic gradient descent, without momentum or other state. */
import type { SgdSpec } from '../../run/spec/model-spec.ts';
import { mul, sub } from '../graph/verbs.ts';
import type { OptimizerRule } from './optimizer.ts';
import { learningRateAt } from './schedule.ts';

export const sgd: OptimizerRule<SgdSpec> = ({ schedule, clipNorm }) => ({
  moments: [],
  clipNorm,
  whole: [],
  rateCount: 1,
  rates: (step) => [learningRateAt(schedule, step)],
  update: ({ params, gradient, rates: [rate], factor }) => ({
    params: sub(params, mul(gradient, factor ? mul(rate!, factor) : rate!)),
    moments: [],
  }),
});
