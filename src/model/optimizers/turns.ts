/**
 * Stretches of the parameters that are trained in turn: those whose turn it is not keep their values and their moments, and their
 * gradient counts for nothing. Whose turn it is comes with the rates.
 */
import type { Value } from '../graph/value.ts';
import { concat, equal, expand, filled, where } from '../graph/verbs.ts';
import type { Range } from '../ranges.ts';
import type { Optimizer } from './optimizer.ts';

/** The optimizer for these stretches, which lie end to end; itself where there are none. */
export function inTurns(optimizer: Optimizer, turns: readonly Range[]): Optimizer {
  if (turns.length === 0) return optimizer;
  /** For every parameter whether it moves. */
  const moving = (rates: readonly Value[]): Value => {
    const turn = rates.at(-1)!;
    const [first, ...rest] = turns.map(({ from, to }, i) => expand(equal(turn, i), [to - from]));
    return concat([first!, ...rest], 0);
  };
  return {
    ...optimizer,
    rateCount: optimizer.rateCount + 1,
    rates: (step, seen, turn = 0) => [...optimizer.rates(step, seen), turn],
    ofTurn: (gradient, rates) => where(moving(rates), gradient, filled(gradient, [], 0)),
    update: (input) => {
      const moves = moving(input.rates);
      const updated = optimizer.update({ ...input, rates: input.rates.slice(0, -1) });
      const kept = (now: Value, before: Value) => where(moves, now, before);
      return {
        params: kept(updated.params, input.params),
        moments: updated.moments.map((moment, i) => kept(moment, input.moments[i]!)),
      };
    },
  };
}
