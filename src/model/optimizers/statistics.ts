/** Adds running statistics to an optimizer: a step moves each statistic a share of the way to that of the batch. */
import type { Range } from '../../tensor/partial-vector.ts';
import { STATISTIC_SCALE } from '../graph/ops/statistics.ts';
import type { Value } from '../graph/rule.ts';
import { concat, mul, split, sub } from '../graph/verbs.ts';
import type { Optimizer } from './optimizer.ts';

/** Position of a running statistic in the flat vectors. */
export interface StatisticRange extends Range {
  readonly rate: number;
}

/** Returns the optimizer for everything but these ranges, which must be in order. */
export function withStatistics(
  optimizer: Optimizer,
  statistics: readonly StatisticRange[],
): Optimizer {
  if (statistics.length === 0) return optimizer;
  return {
    ...optimizer,
    whole: [...optimizer.whole, ...statistics].sort((a, b) => a.from - b.from),
    update: (input) => {
      const { params, moments } = optimizer.update(input);
      const { from } = input;
      const size = input.params.shape[0]!;
      const inside = statistics.filter((each) => each.from >= from && each.to <= from + size);
      const borders = [...inside.flatMap((each) => [each.from - from, each.to - from]), size];
      const sizes = borders.map((border, i) => border - (borders[i - 1] ?? 0));
      // ranges that the optimizer updates and statistics, in turn
      const filled = sizes.map((each, i) => ({ each, rate: inside[(i - 1) / 2]?.rate }));
      const kept = filled.filter(({ each }) => each > 0);
      const cut = (vector: Value) =>
        split(
          vector,
          0,
          kept.map(({ each }) => each),
        );
      const [before, gradient, after] = [input.params, input.gradient, params].map(cut);
      const parts = kept.map(({ rate }, i) =>
        rate === undefined
          ? after![i]!
          : sub(before![i]!, mul(gradient![i]!, rate / STATISTIC_SCALE)),
      );
      return { params: concat(parts as [Value, ...Value[]], 0), moments };
    },
  };
}
