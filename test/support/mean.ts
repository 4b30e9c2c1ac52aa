/** The mean of contributions as a round takes it, nothing clipped. */
import {
  type Mean,
  type MeanOptions,
  type MeanRule,
  weightedMean,
  weightOf,
} from '../../src/consensus/aggregate/mean.ts';
import type { Contribution } from '../../src/run/contribution.ts';

type Options = MeanOptions & Parameters<typeof weightOf>[1];

export const meanDelta = (
  cohort: readonly Contribution[],
  { weights, cap, ...options }: Options,
  rule: MeanRule = weightedMean,
): Mean =>
  rule(
    cohort.map(({ worker, eventId: id, delta, examples }) => ({
      ...{ worker, id, delta, late: false, scale: 1 },
      weight: weightOf(examples, { weights, cap }),
    })),
    options,
  );
