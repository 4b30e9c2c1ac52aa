/** Computes the mean of contributions as a round does, without clipping. */
import { weightedMean } from 'nostrain/consensus';
import type { Contribution } from 'nostrain/run';
import {
  type Mean,
  type MeanOptions,
  type MeanRule,
  weightOf,
} from '../../src/consensus/aggregate/mean.ts';

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
