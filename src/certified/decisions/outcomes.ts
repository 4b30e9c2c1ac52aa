/**
 * Applies outcomes to the certified state: roster change, then model step. Workers and replays share these functions,
 * so a replay recomputes exactly what a worker computed.
 */
import { canonicalJson } from '../../base/canonical-json.ts';
import { weightOf } from '../../consensus/aggregate/mean.ts';
import { rosterWeights, type Stakes } from '../../consensus/committee/committee.ts';
import { nesterovStep } from '../../consensus/outer/nesterov.ts';
import type { ModelState } from '../../consensus/roots.ts';
import type { RosterChange } from '../../consensus/round/membership.ts';
import { guestTest } from '../../consensus/round/seats.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import { allFinite, fullSize, localSlices } from '../../tensor/params.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { boundedMean } from '../../worker/apply-round.ts';
import {
  type Certified,
  type Chain,
  type Draft,
  electorateOf,
  follow,
  stakesOf,
  type Taken,
  withEntropy,
} from './chain.ts';
import {
  type CountedContribution,
  checkRejected,
  markEmpty,
  openAccepted,
} from './contributions.ts';
import { type Evidence, invalid, type Ruling, valid } from './evidence.ts';
import { seatFounders } from './founders.ts';
import { expertParts } from './groups.ts';
import { rosterChange } from './roster-change.ts';
import { type Roots, rootsAfter, rootsOfSlices } from './slices.ts';

/** Computes the roots of a proposer's draft and the state it leads to. */
export function completeOutcome(
  before: Certified,
  draft: Draft,
  evidence: Evidence,
  hash?: Sha256,
): Ruling<{ readonly outcome: Outcome; readonly next: Certified }> {
  const ready = withEntropy(before, evidence);
  if (!ready.ok) return ready;
  const state = seatFounders(ready.value, draft.joins, evidence);
  const judged = judgeDraft(state, draft, evidence);
  if (!judged.ok) return judged;
  const rejected = checkRejected(state, draft, evidence);
  if (!rejected.ok) return rejected;
  const rows = openAccepted(state, draft, evidence);
  if (!rows.ok) return rows;
  const accepted = markEmpty(draft.accepted, rows.value);
  const { members } = state.ledger;
  const contributed = accepted
    .filter(({ empty }) => !empty)
    .map(({ index }) => members[index]!.key);
  const { change, stakes } = judged.value;
  const weights = contributionWeights(state, stakes, change.faults);
  const { model, roots, typical, taken } = stepModel(state, rows.value, weights, { hash });
  if (!isFiniteModel(model)) return notFinite();
  const [rowSize = 0, ...outerSizes] = typical;
  const moves = { ...change, contributed, rowSize, outerSizes };
  const { outcome, next } = follow(state, { ...draft, accepted }, moves, roots);
  return valid({ outcome, next: { ...next, ...model, taken } });
}

const isFiniteModel = ({ params, momentum }: ModelStep['model']): boolean =>
  allFinite(params.values) && allFinite(momentum);

const notFinite = () =>
  invalid('not-finite', 'accepted', 'the outer step gives a value that is not finite');

/** Returns the state after an outcome. Recomputes everything and compares both roots; invalid if anything differs. */
export function applyOutcome(
  state: Certified,
  outcome: Outcome,
  evidence: Evidence,
  hash?: Sha256,
): Ruling<Certified> {
  const { layout } = state.params;
  if (layout.size < fullSize(layout)) return applyToPart(state, outcome, evidence, hash);
  const completed = completeOutcome(state, outcome, evidence, hash);
  if (!completed.ok) return completed;
  const wrong =
    differentEmptyMarks(outcome, completed.value.outcome) ??
    differentRoot(outcome, completed.value.outcome);
  return wrong ?? valid(completed.value.next);
}

/**
 * Applies an outcome for a worker that has only some slices: recomputes and compares those, and trusts the quorum for
 * the others.
 */
function applyToPart(
  before: Certified,
  outcome: Outcome,
  evidence: Evidence,
  hash?: Sha256,
): Ruling<Certified> {
  const ready = withEntropy(before, evidence);
  if (!ready.ok) return ready;
  const state = seatFounders(ready.value, outcome.joins, evidence);
  const { params: _, momentum: __, taken: ___, ...chain } = state;
  const followed = applyToChain(chain, outcome, evidence);
  if (!followed.ok) return followed;
  const judged = judgeDraft(state, outcome, evidence);
  if (!judged.ok) return judged;
  const rows = openAccepted(state, outcome, evidence);
  if (!rows.ok) return rows;
  const weights = contributionWeights(state, judged.value.stakes, judged.value.change.faults);
  const claimed = outcome.features.widths!;
  const stepped = stepModel(state, rows.value, weights, { hash, outer: claimed.rings });
  if (!isFiniteModel(stepped.model)) return notFinite();
  const wrong = sliceMismatch([outcome.rowSize, ...claimed.sizes], claimed.rings, stepped);
  return wrong ?? valid({ ...followed.value, ...stepped.model, taken: stepped.taken });
}

/**
 * Returns an error for the first local slice whose root or typical size differs from the outcome; undefined if all
 * match.
 */
export function sliceMismatch(
  sizes: readonly number[],
  sliceRoots: readonly string[],
  { typical, roots }: ModelStep,
): ReturnType<typeof invalid> | undefined {
  const at = typical.findIndex(
    (size, i) => size !== sizes[i] || roots.sliceRoots![i] !== sliceRoots[i],
  );
  if (at < 0) return undefined;
  const computed = `${roots.sliceRoots![at]} with rows of ${typical[at]}`;
  const words = `slice ${at} is ${sliceRoots[at]} with rows of ${sizes[at]}, computed ${computed}`;
  return invalid('wrong-ring', 'features.widths', words);
}

/** Applies an outcome without the model: does not read manifests and takes the model root from the outcome. */
export function applyToChain(chain: Chain, outcome: Outcome, evidence: Evidence): Ruling<Chain> {
  const ready = withEntropy(chain, evidence);
  if (!ready.ok) return ready;
  const seated = seatFounders(ready.value, outcome.joins, evidence);
  const judged = judgeDraft(seated, outcome, evidence);
  if (!judged.ok) return judged;
  const { rowSize, modelRoot } = outcome;
  const { rings: sliceRoots, sizes: outerSizes } = outcome.features.widths ?? {};
  const roots = { modelRoot, sliceRoots };
  const wrong = sliceSetMismatch(chain, roots, outerSizes);
  if (wrong) return wrong;
  const change = { ...judged.value.change, rowSize, ...(outerSizes && { outerSizes }) };
  const followed = follow(seated, outcome, change, roots);
  return differentRoot(outcome, followed.outcome) ?? valid(followed.next);
}

/** Returns an error unless the outcome has a root for every slice of the model and its model root covers them. */
function sliceSetMismatch(
  { spec: { tiers } }: Chain,
  { modelRoot, sliceRoots }: Roots,
  sizes: readonly number[] = [],
): ReturnType<typeof invalid> | undefined {
  if (sliceRoots === undefined && tiers === 0) return undefined;
  const isWhole = sliceRoots?.length === tiers + 1 && sizes.length === tiers;
  if (isWhole && rootsOfSlices(sliceRoots).modelRoot === modelRoot) return undefined;
  return invalid('wrong-rings', 'features.widths', `not ${tiers + 1} slices of model ${modelRoot}`);
}

/**
 * Checks everything in an outcome except contributions and roots; returns the roster change and the stakes that apply.
 */
function judgeDraft(
  chain: Chain,
  draft: Draft,
  evidence: Evidence,
): Ruling<{ readonly change: RosterChange; readonly stakes: Stakes }> {
  const { run, round, parent, modelRoot: base } = chain;
  const expected = { run, round, parent, base };
  for (const name of ['run', 'round', 'parent', 'base'] as const) {
    if (draft[name] === expected[name]) continue;
    return invalid(`wrong-${name}`, name, `${name} is ${draft[name]}, not ${expected[name]}`);
  }
  if (draft.result === 'final' && draft.accepted.length === 0) {
    return invalid('nothing-accepted', 'accepted', 'a final outcome must accept a contribution');
  }
  if (draft.result === 'void' && draft.accepted.length > 0) {
    return invalid('void-accepts', 'accepted', 'a void outcome must accept no contribution');
  }
  const stakes = stakesOf(chain.ledger, evidence);
  if (!stakes.ok) return stakes;
  const change = rosterChange(chain, draft, electorateOf(chain, stakes.value), evidence);
  return change.ok ? valid({ change: change.value, stakes: stakes.value }) : change;
}

/**
 * Returns the stake weight of each worker's contribution: with stakes its weight in the committee draw, otherwise 1. A
 * key that this outcome proves faulty has weight 0.
 */
function contributionWeights(
  { spec, ledger }: Certified,
  stakes: Stakes,
  faults: readonly WorkerId[],
): (worker: WorkerId) => number {
  if (stakes === null) return () => 1;
  const roster = ledger.members.map(({ key }) => key).filter((key) => !faults.includes(key));
  const weights = rosterWeights(roster, stakes, spec.committee);
  return (worker) => weights.get(worker) ?? 0;
}

/** Returns an error for the first contribution whose `empty` mark is wrong; undefined if all are right. */
function differentEmptyMarks(
  proposed: Outcome,
  computed: Outcome,
): ReturnType<typeof invalid> | undefined {
  const isEmpty = ({ accepted }: Outcome, i: number): boolean => accepted[i]?.empty === true;
  const wrong = proposed.accepted.find((_, i) => isEmpty(proposed, i) !== isEmpty(computed, i));
  if (wrong === undefined) return undefined;
  const word = wrong.empty ? 'not ' : '';
  return invalid('wrong-empty', 'accepted', `manifest ${wrong.manifest} is ${word}empty`);
}

function differentRoot(
  proposed: Outcome,
  computed: Outcome,
): ReturnType<typeof invalid> | undefined {
  const slices = canonicalJson(computed.features.widths ?? null);
  if (canonicalJson(proposed.features.widths ?? null) !== slices) {
    return invalid('wrong-rings', 'features.widths', `slices are not as computed: ${slices}`);
  }
  for (const name of ['rowSize', 'modelRoot', 'ledgerRoot'] as const) {
    if (proposed[name] === computed[name]) continue;
    return invalid(
      `wrong-${name}`,
      name,
      `${name} is ${proposed[name]}, computed ${computed[name]}`,
    );
  }
  return undefined;
}

export interface ModelStep {
  readonly model: ModelState;
  readonly roots: Roots;
  /** Typical contribution norm in each local slice; one number in a run without tiers. */
  readonly typical: readonly number[];
  readonly taken: Taken | undefined;
}

/**
 * Aggregates the contributions and takes the outer step. Without contributions nothing changes, including the momentum.
 */
export function stepModel(
  state: Certified,
  rows: readonly CountedContribution[],
  stakeOf: (worker: WorkerId) => number,
  { hash, outer }: { readonly hash?: Sha256 | undefined; readonly outer?: readonly Digest[] } = {},
): ModelStep {
  const { spec, params, momentum, ledger } = state;
  if (rows.length === 0) {
    const typical = localSlices(params.layout).map(() => 0);
    return { model: { params, momentum }, roots: state, typical, taken: undefined };
  }
  const { weights, normalize, outerLearningRate, momentum: kept } = spec.training;
  const { normBoundC: normBound, weightCap } = spec.limits;
  const isGuest = guestTest(spec, ledger);
  const { mean: aggregate, typical } = boundedMean(
    rows.map(({ late, contribution: { worker, eventId: id, delta, examples } }) => ({
      worker,
      id,
      late,
      delta,
      stake: stakeOf(worker),
      isGuest: isGuest(worker),
      weight: weightOf(examples, { weights, cap: weightCap }) * stakeOf(worker),
    })),
    { params, histories: [ledger.rowSizes, ...(ledger.features.widths?.sizes ?? [])] },
    { normBound, normalize, aggregation: spec.aggregation },
    { seed: ledger.entropy ?? '', parts: expertParts(spec) },
  );
  const step = { learningRate: outerLearningRate * aggregate.rate, momentum: kept };
  const stepped = nesterovStep(params.values, momentum, aggregate, step);
  const model = {
    params: { layout: params.layout, values: stepped.values },
    momentum: stepped.momentum,
  };
  const moved = ({ from, to }: { readonly from: number; readonly to: number }) =>
    aggregate.moved.some((chunk) => from <= chunk * CHUNK_LENGTH && chunk * CHUNK_LENGTH < to);
  const roots = rootsAfter(model, { before: state, moved, outer, hash });
  return { model, roots, typical, taken: aggregate };
}
