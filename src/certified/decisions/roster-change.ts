/** The change that an outcome makes to the roster, as far as evidence lets it: who joins by which signature, who leaves, and who is put out. */
import type { Stakes } from '../../consensus/committee/committee.ts';
import { drawnOf } from '../../consensus/committee/draw.ts';
import type { RosterChange } from '../../consensus/round/membership.ts';
import { joinsBeforeLeaving, refuseChange } from '../../consensus/round/roster-change.ts';
import type { WorkerId } from '../../run/ids.ts';
import { roundName } from '../../run/round-name.ts';
import { withFeatures } from '../../run/spec/features.ts';
import type { Join } from '../../run/vote.ts';
import { votersOf } from '../checks/scoring.ts';
import { signedAgain } from '../wire/votes.ts';
import { refuseAdmission } from './admission.ts';
import { judgeViewChanges } from './certificate.ts';
import {
  type Chain,
  type Draft,
  type Electorate,
  membershipOf,
  rosterJoin,
  roundAfter,
  stakesOf,
} from './chain.ts';
import { type Evidence, found, invalid, type Verdict } from './evidence.ts';
import { convictedBy, upheldIn } from './jury.ts';

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
    late,
    empty,
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
    round,
    result,
    proposer,
    reveal,
    snapshot,
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
