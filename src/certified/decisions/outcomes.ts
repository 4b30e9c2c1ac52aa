/**
 * The one way the certified state moves: outcome by outcome, with its roster change and model step. Workers and replays
 * use the same functions, so a replay checks what was really done.
 */
import { canonicalJson } from '../../base/canonical-json.ts';
import { weightOf } from '../../consensus/aggregate/mean.ts';
import { rosterWeights, type Stakes } from '../../consensus/committee/committee.ts';
import { nesterovStep } from '../../consensus/outer/nesterov.ts';
import type { ModelState } from '../../consensus/roots.ts';
import type { RosterChange } from '../../consensus/round/membership.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
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
import { rosterChange } from './roster-change.ts';
import { heldOf, isPart, type Roots, rootsAfter, rootsOfSlices } from './slices.ts';

/** A draft with its roots, and the state it leads to: what a proposer composes. */
export function completeOutcome(
  before: Certified,
  draft: Draft,
  evidence: Evidence,
  hash?: Sha256,
): Ruling<{ readonly outcome: Outcome; readonly next: Certified }> {
  const ready = withEntropy(before, evidence);
  if (!ready.ok) return ready;
  const state = ready.value;
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
  params.values.every(Number.isFinite) && momentum.every(Number.isFinite);

const notFinite = () =>
  invalid('not-finite', 'accepted', 'the outer step leaves a value that is not finite');

/** The state after an outcome, when it is valid: everything of it recomputed, both roots compared. */
export function applyOutcome(
  state: Certified,
  outcome: Outcome,
  evidence: Evidence,
  hash?: Sha256,
): Ruling<Certified> {
  if (isPart(state.spec, state.params.layout)) return applyToPart(state, outcome, evidence, hash);
  const completed = completeOutcome(state, outcome, evidence, hash);
  if (!completed.ok) return completed;
  const wrong =
    differentEmptyMarks(outcome, completed.value.outcome) ??
    differentRoot(outcome, completed.value.outcome);
  return wrong ?? valid(completed.value.next);
}

/** The same with some slices of the model: those are recomputed and compared; for the others the quorum is trusted. */
function applyToPart(
  before: Certified,
  outcome: Outcome,
  evidence: Evidence,
  hash?: Sha256,
): Ruling<Certified> {
  const ready = withEntropy(before, evidence);
  if (!ready.ok) return ready;
  const state = ready.value;
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

/** The first slice of those that are here of which an outcome says something else. */
function sliceMismatch(
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

/** The same without the model: manifests are not looked at, and the model root is taken from the outcome. */
export function applyToChain(chain: Chain, outcome: Outcome, evidence: Evidence): Ruling<Chain> {
  const ready = withEntropy(chain, evidence);
  if (!ready.ok) return ready;
  const judged = judgeDraft(ready.value, outcome, evidence);
  if (!judged.ok) return judged;
  const { rowSize, modelRoot } = outcome;
  const { rings: sliceRoots, sizes: outerSizes } = outcome.features.widths ?? {};
  const roots = { modelRoot, sliceRoots };
  const wrong = sliceSetMismatch(chain, roots, outerSizes);
  if (wrong) return wrong;
  const change = { ...judged.value.change, rowSize, ...(outerSizes && { outerSizes }) };
  const followed = follow(ready.value, outcome, change, roots);
  return differentRoot(outcome, followed.outcome) ?? valid(followed.next);
}

/** Whether an outcome speaks of as many slices as the model has, and its model root is over them. */
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

/** Everything of an outcome but its rows and roots: the roster change that it makes, by the stakes that hold. */
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
    return invalid('nothing-accepted', 'accepted', 'a final outcome accepts something');
  }
  if (draft.result === 'void' && draft.accepted.length > 0) {
    return invalid('void-accepts', 'accepted', 'a void outcome accepts nothing');
  }
  const stakes = stakesOf(chain.ledger, evidence);
  if (!stakes.ok) return stakes;
  const change = rosterChange(chain, draft, electorateOf(chain, stakes.value), evidence);
  return change.ok ? valid({ change: change.value, stakes: stakes.value }) : change;
}

/**
 * What a row weighs beside its examples: with stakes as its author weighs in the committee draw, else 1. A key that
 * this outcome proves faulty weighs nothing.
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

/** The first row that says wrongly whether its payload is empty. */
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
  /** Typical size of the rows in each slice that is here; of all of them in a run without tiers. */
  readonly typical: readonly number[];
  readonly taken: Taken | undefined;
}

/** Mean of the rows, outer step. Without rows nothing moves, not even the momentum. */
export function stepModel(
  state: Certified,
  rows: readonly CountedContribution[],
  stakeOf: (worker: WorkerId) => number,
  { hash, outer }: { readonly hash?: Sha256 | undefined; readonly outer?: readonly Digest[] } = {},
): ModelStep {
  const { spec, params, momentum, ledger } = state;
  const tiers = heldOf(spec, params.layout);
  if (rows.length === 0) {
    const typical = Array.from({ length: tiers?.slices.length ?? 1 }, () => 0);
    return { model: { params, momentum }, roots: state, typical, taken: undefined };
  }
  const { weights, normalize, outerLearningRate, momentum: kept } = spec.training;
  const { normBoundC: normBound, weightCap } = spec.limits;
  const { mean: aggregate, typical } = boundedMean(
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
  const step = { learningRate: outerLearningRate * aggregate.rate, momentum: kept };
  const stepped = nesterovStep(params.values, momentum, aggregate, step);
  const model = {
    params: { layout: params.layout, values: stepped.values },
    momentum: stepped.momentum,
  };
  const moved = ({ from, to }: { readonly from: number; readonly to: number }) =>
    aggregate.moved.some((chunk) => from <= chunk * CHUNK_LENGTH && chunk * CHUNK_LENGTH < to);
  const roots = rootsAfter(spec, model, { before: state, moved, outer, hash });
  return { model, roots, typical, taken: aggregate };
}
