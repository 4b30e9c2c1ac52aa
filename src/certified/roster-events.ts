/** The roster change that an outcome makes, from the votes, joins, leaves, faults and view-change votes that it lists. */

import type { RosterChange } from '../consensus/round/membership.ts';
import { joinsBeforeLeaving, refuseChange } from '../consensus/round/roster-change.ts';
import { signedAgain } from '../network/wire/signatures.ts';
import { withFeatures } from '../run/features.ts';
import type { WorkerId } from '../run/ids.ts';
import { roundName } from '../run/round-name.ts';
import type { Join, Signed } from '../run/vote.ts';
import { judgeBallots, judgeVotes, listed } from './certificate.ts';
import { type Chain, type Draft, roundAfter } from './chain-state.ts';
import { type Electorate, membershipOf, type Situation } from './electorate.ts';
import {
  type Evidence,
  type FaultProof,
  found,
  invalid,
  type ProtocolMessage,
  type Verdict,
} from './evidence.ts';

/** The change that an outcome makes, when it may. `beacon` and `rowSize` are left open: they come later. */
export function rosterChange(
  chain: Chain,
  outcome: Draft,
  electorate: Electorate,
  evidence: Evidence,
): Verdict<RosterChange> {
  const voters = votersOf(chain, outcome, evidence);
  if (!voters.ok) return voters;
  const wrongMember = wrongJoin(chain, outcome, evidence) ?? wrongLeave(chain, outcome, evidence);
  if (wrongMember !== undefined) return wrongMember;
  const faults = listed(outcome.faults, 'faults', evidence, isFault);
  if (!faults.ok) return faults;
  const ballots = ballotsOf(chain, outcome, electorate, evidence);
  if (!ballots.ok) return ballots;
  const accepted = outcome.accepted.map(({ index, late, empty = false }) => ({
    ...{ late, empty },
    key: electorate.roster[index],
  }));
  const unknown = accepted.findIndex(({ key }) => key === undefined);
  if (unknown >= 0) {
    return invalid('not-in-roster', 'accepted', `row ${unknown} is of nobody in the roster`);
  }
  const keys = (rows: typeof accepted) => rows.map(({ key }) => key!);
  const { round, result, proposer, reveal } = outcome;
  const snapshot = outcome.features.stake?.snapshot ?? '';
  const change: RosterChange = {
    ...{ round, result, proposer, reveal, snapshot },
    seen: [...new Set([...keys(accepted), ...voters.value])],
    accepted: keys(accepted.filter(({ late }) => !late)),
    contributed: keys(accepted.filter(({ empty }) => !empty)),
    joins: outcome.joins,
    leaves: outcome.leaves.map(({ key }) => key),
    faults: faults.value.map(({ culprit }) => culprit),
    ballotKeys: ballots.value,
    isRecovered: outcome.ballots.length > 0,
    beacon: '',
    rowSize: 0,
  };
  const wrong = refuseChange(membershipOf(chain.spec, chain.run), chain.ledger, change);
  return wrong === undefined
    ? found(change)
    : invalid(wrong, 'roster', `the outcome cannot change the roster so: ${wrong}`);
}

/** Who signed the listed votes. They decided the round before; round 0 has none before it. */
function votersOf(
  { spec, run, before, parent }: Chain,
  { votes }: Draft,
  evidence: Evidence,
): Verdict<readonly WorkerId[]> {
  if (before === null) {
    return votes === null ? found([]) : invalid('no-quorum', 'votes', 'votes before round 0');
  }
  const past: Situation = { spec, run, ...before };
  const certificate = judgeVotes(past, parent, votes, evidence);
  return certificate.ok ? found(certificate.value.commits.map(({ key }) => key)) : certificate;
}

/** The first join that follows none of the last outcomes, that is from before its key left, or that its key did not sign. */
function wrongJoin(
  chain: Chain,
  { joins }: Draft,
  evidence: Evidence,
): ReturnType<typeof invalid> | undefined {
  const { run } = chain;
  const isUndone = joinsBeforeLeaving(chain.departed);
  for (const { key, after, tip, evidence: shown, features, ...signature } of joins) {
    const followed = roundAfter(chain, after);
    if (followed === undefined) {
      return invalid('old-join', 'joins', `the join of ${key} follows none of the last outcomes`);
    }
    if (isUndone({ key, after: followed })) {
      return invalid('join-before-leave', 'joins', `${key} left after it had asked to join so`);
    }
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
function ballotsOf(
  chain: Chain,
  { ballots, proposer }: Draft,
  electorate: Electorate,
  evidence: Evidence,
): Verdict<readonly WorkerId[] | null> {
  const isRecovered = ballots.length > 0;
  const { eligible, committee, isSampled } = electorate;
  return (isRecovered ? eligible : committee.members).includes(proposer)
    ? isRecovered && !isSampled
      ? judgeBallots(chain, ballots, undefined, evidence, electorate)
      : found(null)
    : invalid('not-a-member', 'proposer', `${proposer} has no seat in ${roundName(chain.round)}`);
}

const isFault = (noun: ProtocolMessage): noun is Signed<FaultProof> => noun.type === 'fault';
