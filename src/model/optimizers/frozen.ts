/** Adds a mask to an optimizer: parameters outside of it, and their moments, keep their bits. */
import type { Range } from '../../tensor/partial-vector.ts';
import type { Value } from '../graph/rule.ts';
import { greater, mul, where } from '../graph/verbs.ts';
import type { Optimizer } from './optimizer.ts';

/** Name of the state vector that is 1 where a step updates the parameter, else 0. */
export const TRAINED = 'trained';

/** Returns the mask of these ranges; of all parameters if there are none given. */
export function trainedMask(size: number, ranges: readonly Range[] | undefined): Float32Array {
  const mask = new Float32Array(size).fill(ranges === undefined ? 1 : 0);
  for (const { from, to } of ranges ?? []) mask.fill(1, from, to);
  return mask;
}

/** Returns the optimizer with the mask as its last moment. The norm that clips a gradient is that of all parameters. */
export const withFrozen = (optimizer: Optimizer): Optimizer => ({
  ...optimizer,
  moments: [...optimizer.moments, TRAINED],
  update(input) {
    const moments = input.moments.slice(0, -1);
    const mask = input.moments.at(-1)!;
    const isTrained = greater(mask, 0.5);
    const next = optimizer.update({ ...input, moments });
    const kept = (after: Value, before: Value) => where(isTrained, after, before);
    return {
      params: kept(next.params, input.params),
      moments: [...next.moments.map((after, i) => kept(after, moments[i]!)), mul(mask, 1)],
    };
  },
});
