/**
 * AdamW (Loshchilov and Hutter, arXiv 1711.05101): decay is applied to every parameter, apart from the gradient.
 *
 *   m = b1 m + (1 - b1) g;  s = b2 s + (1 - b2) g^2
 *   p = p (1 - rate * decay) - rate * (m / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + epsilon)
 *
 * The bias corrections are folded into the step's rate and epsilon, so that no pass over the vectors is spent on them.
 */
import type { AdamWSpec } from '../../run/spec/model-spec.ts';
import { add, div, mul, sqrt, square, sub } from '../graph/verbs.ts';
import type { OptimizerRule } from './optimizer.ts';
import { learningRateAt } from './schedule.ts';

export const adamw: OptimizerRule<AdamWSpec> = (spec) => {
  const { schedule, clipNorm, beta1, beta2, epsilon, weightDecay } = spec;
  return {
    moments: ['first', 'second'],
    clipNorm,
    whole: [],
    rateCount: 3,
    rates: (step, seen) => {
      const rate = learningRateAt(schedule, step);
      const correction = Math.sqrt(1 - power(beta2, seen + 1));
      return [
        (rate * correction) / (1 - power(beta1, seen + 1)),
        epsilon * correction,
        1 - rate * weightDecay,
      ];
    },
    update: ({ params, gradient, moments: [first, second], rates, factor }) => {
      const [rate, floor, keep] = rates;
      const share1 = factor ? mul(factor, 1 - beta1) : 1 - beta1;
      const share2 = factor ? mul(square(factor), 1 - beta2) : 1 - beta2;
      const m = add(mul(first!, beta1), mul(gradient, share1));
      const s = add(mul(second!, beta2), mul(square(gradient), share2));
      const move = div(mul(m, rate!), add(sqrt(s), floor!));
      return { params: sub(mul(params, keep!), move), moments: [m, s] };
    },
  };
};

/** A whole power by repeated squaring: the same bits on every engine, unlike `**`. */
function power(base: number, exponent: number): number {
  let result = 1;
  for (let left = exponent, square = base; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result *= square;
    square *= square;
  }
  return result;
}
