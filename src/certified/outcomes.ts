/**
 * The one way the certified state of a run moves: outcome by outcome, with the roster change that each makes. The worker that plays and whoever
 * replays the run use the same functions, so a replay checks what was really done.
 */

import { weightOf } from '../consensus/aggregate/mean.ts';
import { boundRows, rootMeanSquare } from '../consensus/aggregate/norm-bound.ts';
import { aggregate } from '../consensus/aggregate/rules.ts';
import { rosterWeights, type Stakes } from '../consensus/committee/committee.ts';
import { drawnOf } from '../consensus/committee/sample.ts';
import { nesterovStep } from '../consensus/outer/nesterov.ts';
import type { RosterChange } from '../consensus/round/membership.ts';
import { joinsBeforeLeaving, refuseChange } from '../consensus/round/roster-change.ts';
import { type ModelState, modelRoot } from '../consensus/state-root.ts';
import type { Sha256 } from '../network/event-crypto.ts';
import { signedAgain } from '../network/wire/votes.ts';
import { withFeatures } from '../run/features.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import { roundName } from '../run/round-name.ts';
import type { Join } from '../run/vote.ts';
import { refuseAdmission } from './admission.ts';
import { judgeViewChanges } from './certificate.ts';
import {
  type Certified,
  type Chain,
  type Draft,
  type Electorate,
  electorateOf,
  follow,
  membershipOf,
  rosterJoin,
  roundAfter,
  stakesOf,
  type Taken,
  withEntropy,
} from './chain.ts';
import { type Evidence, found, invalid, type Verdict } from './evidence.ts';
import { convictedBy, upheldIn } from './jury.ts';
import { acceptedRows, checkRejected, markEmpty, type Row } from './rows.ts';
import { votersOf } from './scoring.ts';
import { stretchOf } from './terms.ts';

/** What an outcome leads to. */
export interface Completed {
  readonly outcome: Outcome;
  readonly next: Certified;
}

/** A draft with its roots, and the state it leads to: what a proposer composes. */
export function completeOutcome(
  before: Certified,
  draft: Draft,
  evidence: Evidence,
  hash?: Sha256,
): Verdict<Completed> {
  const ready = withEntropy(before, evidence);
  if (!ready.ok) return ready;
  const state = ready.value;
  const judged = judgeDraft(state, draft, evidence);
  if (!judged.ok) return judged;
  const rejected = checkRejected(state, draft, evidence);
  if (!rejected.ok) return rejected;
  const rows = acceptedRows(state, draft, evidence);
  if (!rows.ok) return rows;
  const accepted = markEmpty(draft.accepted, rows.value);
  const { members } = state.ledger;
  const contributed = accepted
    .filter(({ empty }) => !empty)
    .map(({ index }) => members[index]!.key);
  const { change, stakes } = judged.value;
  const weights = rowWeights(state, stakes, change.faults);
  const { model, rowSize, taken } = step(state, rows.value, weights);
  if (!model.params.values.every(Number.isFinite) || !model.momentum.every(Number.isFinite)) {
    return invalid('not-finite', 'accepted', 'the outer step leaves a value that is not finite');
  }
  const moved = (taken?.moved.length ?? 0) > 0;
  const root = moved ? modelRoot(model, hash) : state.modelRoot;
  const moves = { ...change, contributed, rowSize };
  const { outcome, next } = follow(state, { ...draft, accepted }, moves, root);
  return found({ outcome, next: { ...next, ...model, taken } });
}

/** The state after an outcome, when it is valid: everything of it recomputed, both roots compared. */
export function applyOutcome(
  state: Certified,
  outcome: Outcome,
  evidence: Evidence,
  hash?: Sha256,
): Verdict<Certified> {
  const completed = completeOutcome(state, outcome, evidence, hash);
  if (!completed.ok) return completed;
  const wrong =
    differentRows(outcome, completed.value.outcome) ??
    differentRoot(outcome, completed.value.outcome);
  return wrong ?? found(completed.value.next);
}

/** The same without the model: manifests are not looked at, and the model root is taken from the outcome. */
export function applyToChain(chain: Chain, outcome: Outcome, evidence: Evidence): Verdict<Chain> {
  const ready = withEntropy(chain, evidence);
  if (!ready.ok) return ready;
  const judged = judgeDraft(ready.value, outcome, evidence);
  if (!judged.ok) return judged;
  const { rowSize, modelRoot } = outcome;
  const followed = follow(ready.value, outcome, { ...judged.value.change, rowSize }, modelRoot);
  return differentRoot(outcome, followed.outcome) ?? found(followed.next);
}

/** Everything of an outcome but its rows and roots: the roster change that it makes, by the stakes that hold. */
function judgeDraft(
  chain: Chain,
  draft: Draft,
  evidence: Evidence,
): Verdict<{ readonly change: RosterChange; readonly stakes: Stakes }> {
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
  return change.ok ? found({ change: change.value, stakes: stakes.value }) : change;
}

/** Mean of the rows, outer step. Without rows nothing moves, not even the momentum. */
function step(
  { spec, round, params, momentum, ledger }: Certified,
  rows: readonly Row[],
  stakeOf: (worker: WorkerId) => number,
): { readonly model: ModelState; readonly rowSize: number; readonly taken: Taken | undefined } {
  if (rows.length === 0) return { model: { params, momentum }, rowSize: 0, taken: undefined };
  const { weights, normalize, outerLearningRate, momentum: kept } = spec.training;
  const { normBoundC, weightCap } = spec.limits;
  const { scales, typical: rowSize } = boundRows(
    rows.map(({ contribution }) => contribution.delta),
    {
      normBound: normBoundC,
      history: ledger.rowSizes,
      parameters: () => rootMeanSquare(params.values),
      weights: rows.map(({ contribution }) => stakeOf(contribution.worker)),
    },
  );
  const found = aggregate(
    rows.map(({ late, contribution: { worker, eventId: id, delta, examples } }, i) => ({
      ...{ worker, id, late, delta, scale: scales[i]! },
      weight: weightOf(examples, { weights, cap: weightCap }) * stakeOf(worker),
    })),
    {
      ...{ size: params.layout.size, normalize, aggregation: spec.aggregation },
      seed: ledger.entropy ?? '',
    },
  );
  const outer = { learningRate: outerLearningRate * found.rate, momentum: kept };
  const stretch = stretchOf({ spec, round });
  const stepped = nesterovStep(params.values, momentum, found, outer, stretch);
  const model = {
    params: { layout: params.layout, values: stepped.values },
    momentum: stepped.momentum,
  };
  return { model, rowSize, taken: found };
}

/**
 * What a row weighs beside its examples: in a run with stakes what its author weighs in the draw of committees, else 1. The stake of who is
 * proven faulty by this outcome counts for nothing in it already.
 */
function rowWeights(
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
function differentRows(said: Outcome, found: Outcome): ReturnType<typeof invalid> | undefined {
  const isEmpty = ({ accepted }: Outcome, i: number): boolean => accepted[i]?.empty === true;
  const wrong = said.accepted.find((_, i) => isEmpty(said, i) !== isEmpty(found, i));
  if (wrong === undefined) return undefined;
  const word = wrong.empty ? 'not ' : '';
  return invalid('wrong-empty', 'accepted', `manifest ${wrong.manifest} is ${word}empty`);
}

function differentRoot(said: Outcome, found: Outcome): ReturnType<typeof invalid> | undefined {
  for (const name of ['rowSize', 'modelRoot', 'ledgerRoot'] as const) {
    if (said[name] === found[name]) continue;
    return invalid(`wrong-${name}`, name, `${name} is ${said[name]}, computed ${found[name]}`);
  }
  return undefined;
}

/** The change that an outcome makes, when it may. `beacon` and `rowSize` are left open: they come later. */
export function rosterChange(
  chain: Chain,
  outcome: Draft,
  electorate: Electorate,
  evidence: Evidence,
): Verdict<RosterChange> {
  const faults = upheldIn(chain, outcome.faults, evidence);
  if (!faults.ok) return faults;
  const culprits = faults.value.map(({ culprit }) => culprit);
  const voters = votersOf(chain, outcome, culprits, evidence);
  if (!voters.ok) return voters;
  const table = stakesOf(chain.ledger, evidence);
  if (!table.ok) return table;
  const stakes = table.value;
  const wrongMember =
    wrongJoin(chain, outcome, stakes, evidence) ?? wrongLeave(chain, outcome, evidence);
  if (wrongMember !== undefined) return wrongMember;
  const ballots = viewChangesOf(chain, outcome, electorate, evidence);
  if (!ballots.ok) return ballots;
  const accepted = outcome.accepted.map(({ index, late, empty = false }) => ({
    ...{ late, empty },
    key: electorate.roster[index],
  }));
  const unknown = accepted.findIndex(({ key }) => key === undefined);
  if (unknown >= 0) {
    return invalid('not-in-roster', 'accepted', `row ${unknown} is of nobody in the roster`);
  }
  const drawn = drawnOf(membershipOf(chain.spec, chain.run), chain.ledger);
  if (drawn !== null && accepted.some(({ key }) => !drawn.has(key!))) {
    return invalid('not-drawn', 'accepted', 'a row is of somebody who was not drawn');
  }
  const keys = (rows: typeof accepted) => rows.map(({ key }) => key!);
  const dropped = keys(accepted).find((key) => convictedBy(faults.value).has(key));
  if (dropped) return invalid('row-of-ejected', 'accepted', `${dropped} is put out, and counts`);
  const { round, result, proposer, reveal } = outcome;
  const snapshot = outcome.features.stake?.snapshot ?? '';
  const change: RosterChange = {
    ...{ round, result, proposer, reveal, snapshot },
    seen: [...new Set([...keys(accepted), ...voters.value.keys])],
    scores: voters.value.scores,
    accepted: keys(accepted.filter(({ late }) => !late)),
    contributed: keys(accepted.filter(({ empty }) => !empty)),
    joins: outcome.joins.map((join) => rosterJoin(chain, join)),
    leaves: outcome.leaves.map(({ key }) => key),
    faults: culprits,
    ...(chain.spec.jury > 0 && { committee: electorate.committee.members }),
    viewChangeKeys: ballots.value,
    isRecovered: outcome.ballots.length > 0,
    beacon: '',
    rowSize: 0,
  };
  const wrong = refuseChange(membershipOf(chain.spec, chain.run), chain.ledger, change);
  return wrong === undefined
    ? found(change)
    : invalid(wrong, 'roster', `the outcome cannot change the roster so: ${wrong}`);
}

/** The first join that follows none of the last outcomes, that is from before its key left, or that its key did not sign. */
function wrongJoin(
  chain: Chain,
  { joins }: Draft,
  stakes: Stakes,
  evidence: Evidence,
): ReturnType<typeof invalid> | undefined {
  const { run, spec } = chain;
  const isUndone = joinsBeforeLeaving(chain.departed);
  for (const { key, after, tip, evidence: shown, features, ...signature } of joins) {
    const followed = roundAfter(chain, after);
    if (followed === undefined) {
      return invalid('old-join', 'joins', `the join of ${key} follows none of the last outcomes`);
    }
    if (isUndone({ key, after: followed })) {
      return invalid('join-before-leave', 'joins', `${key} left after it had asked to join so`);
    }
    const asking = { key, evidence: shown, ...withFeatures(features) };
    const unfit = refuseAdmission(spec, run, stakes, asking, evidence.isSigned);
    if (unfit) return invalid(unfit, 'joins', `the join of ${key} does not admit it: ${unfit}`);
    const join: Join = {
      type: 'join',
      run,
      after,
      tip,
      evidence: shown,
      ...withFeatures(features),
    };
    if (evidence.isSigned(signedAgain(join, key, signature))) continue;
    return invalid('bad-signature', 'joins', `the signature of the join of ${key} does not hold`);
  }
  return undefined;
}

/** The first leave that is of another time, or that its key did not sign. */
function wrongLeave(
  { run, ledger }: Chain,
  { leaves, round }: Draft,
  evidence: Evidence,
): ReturnType<typeof invalid> | undefined {
  for (const { key, last, ...signature } of leaves) {
    const joined = ledger.members.find((member) => member.key === key)?.joined ?? 0;
    if (last < joined || last > round) {
      return invalid('wrong-leave', 'leaves', `the leave of ${key} is not of ${roundName(round)}`);
    }
    if (evidence.isSigned(signedAgain({ type: 'leave', run, last }, key, signature))) continue;
    return invalid('bad-signature', 'leaves', `the signature of the leave of ${key} does not hold`);
  }
  return undefined;
}

/**
 * Authors of the view-change votes that a body of a recovery epoch lists, where they say who is counted; its proposer may sit.
 * Where seats are sampled the list has no consequence, so a replay does not need its events.
 */
function viewChangesOf(
  chain: Chain,
  { ballots, proposer }: Draft,
  electorate: Electorate,
  evidence: Evidence,
): Verdict<readonly WorkerId[] | null> {
  const isRecovered = ballots.length > 0;
  const { eligible, committee, isSampled } = electorate;
  return (isRecovered ? eligible : committee.members).includes(proposer)
    ? isRecovered && !isSampled
      ? judgeViewChanges(chain, ballots, undefined, evidence, electorate)
      : found(null)
    : invalid('not-a-member', 'proposer', `${proposer} has no seat in ${roundName(chain.round)}`);
}
