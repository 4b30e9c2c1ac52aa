/**
 * Running statistics, such as the means of a batch norm. They are parameters, so that workers average them, but no loss
 * depends on them: their gradient is the way to the statistic of the batch, and their update goes a fixed share of it.
 */
import { direct, type OpRules } from '../rule.ts';
import { mul, reduceSum, sub } from '../verbs.ts';

/**
 * Factor of these gradients, so that they add nothing to the norm of all gradients. A power of two: the update divides
 * by it without rounding.
 */
export const STATISTIC_SCALE = 2 ** -24;

export const statistics = {
  track: {
    infer: ([losses]) => [losses!],
    emit: ({ inputs: [losses], outputs: [y], ...e }) => {
      direct('Identity')({ ...e, inputs: [losses!], outputs: [y!], attributes: {} });
    },
    // the gradients of the losses sum to 1, or to the share of a micro-batch, times the loss scale
    derive: ({ grad, inputs: [, running, batch], wants }) => [
      grad,
      wants(1) ? mul(mul(sub(running!, batch!), STATISTIC_SCALE), reduceSum(grad)) : undefined,
      undefined,
    ],
  },
} satisfies OpRules;
