/**
 * The step that the rows of an outcome make of a certified model: their mean within a bound, the outer step, and the roots after it; in a run
 * with tiers of width ring by ring, over those who have it.
 */
import { weightOf } from '../../consensus/aggregate/mean.ts';
import { nesterovStep } from '../../consensus/outer/nesterov.ts';
import type { ModelState } from '../../consensus/roots.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { boundedMean } from '../../worker/rings.ts';
import type { Certified, Taken } from './chain.ts';
import type { Row } from './rows.ts';
import { heldOf, type Roots, rootsAfter } from './widths.ts';

/** What rows make of a model. */
export interface Stepped {
  readonly model: ModelState;
  readonly roots: Roots;
  /** Typical size of the rows in each ring that is here; of all of them in a run without tiers. */
  readonly typical: readonly number[];
  readonly taken: Taken | undefined;
}

/** Mean of the rows, outer step. Without rows nothing moves, not even the momentum. */
export function stepModel(
  state: Certified,
  rows: readonly Row[],
  stakeOf: (worker: WorkerId) => number,
  { hash, outer }: { readonly hash?: Sha256 | undefined; readonly outer?: readonly Digest[] } = {},
): Stepped {
  const { spec, params, momentum, ledger } = state;
  const tiers = heldOf(spec, params.layout);
  if (rows.length === 0) {
    const typical = Array.from({ length: tiers?.rings.length ?? 1 }, () => 0);
    return { model: { params, momentum }, roots: state, typical, taken: undefined };
  }
  const { weights, normalize, outerLearningRate, momentum: kept } = spec.training;
  const { normBoundC: normBound, weightCap } = spec.limits;
  const { mean: found, typical } = boundedMean(
    rows.map(({ late, contribution: { worker, eventId: id, delta, examples } }) => ({
      worker,
      id,
      late,
      delta,
      stake: stakeOf(worker),
      weight: weightOf(examples, { weights, cap: weightCap }) * stakeOf(worker),
    })),
    { params, histories: [ledger.rowSizes, ...(ledger.features.widths?.sizes ?? [])] },
    { tiers, normBound, normalize, aggregation: spec.aggregation },
    { seed: ledger.entropy ?? '' },
  );
  const step = { learningRate: outerLearningRate * found.rate, momentum: kept };
  const stepped = nesterovStep(params.values, momentum, found, step);
  const model = {
    params: { layout: params.layout, values: stepped.values },
    momentum: stepped.momentum,
  };
  const moved = ({ from, to }: { readonly from: number; readonly to: number }) =>
    found.moved.some((chunk) => from <= chunk * CHUNK_LENGTH && chunk * CHUNK_LENGTH < to);
  const roots = rootsAfter(spec, model, { before: state, moved, outer, hash });
  return { model, roots, typical, taken: found };
}
