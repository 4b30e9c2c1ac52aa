/** What an outcome does to the roster, read from the events it names: votes, joins, leaves, faults, ballots. */
import type { RosterChange } from '../consensus/round/membership.ts';
import { refuseChange } from '../consensus/round/roster-change.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Join, Leave, Signed } from '../run/vote.ts';
import { judgeBallots, judgeVotes, listed } from './certificate.ts';
import type { Chain, Draft } from './chain-state.ts';
import { type Electorate, membershipOf, type Situation } from './electorate.ts';
import {
  type Evidence,
  type FaultProof,
  found,
  invalid,
  type Noun,
  type Verdict,
} from './evidence.ts';

/** The change that an outcome makes, when it may. `beacon` is left open: it comes later. */
export function rosterChange(
  chain: Chain,
  outcome: Draft,
  electorate: Electorate,
  evidence: Evidence,
): Verdict<RosterChange> {
  const voters = votersOf(chain, outcome, evidence);
  if (!voters.ok) return voters;
  const joins = joinsOf(chain, outcome, evidence);
  if (!joins.ok) return joins;
  const leaves = leavesOf(chain, outcome, evidence);
  if (!leaves.ok) return leaves;
  const faults = listed(outcome.faults, 'faults', evidence, isFault);
  if (!faults.ok) return faults;
  const ballots = ballotsOf(chain, outcome, electorate, evidence);
  if (!ballots.ok) return ballots;
  const accepted = outcome.accepted.map(({ index, late }) => ({
    late,
    key: electorate.roster[index],
  }));
  const unknown = accepted.findIndex(({ key }) => key === undefined);
  if (unknown >= 0) {
    return invalid('not-in-roster', 'accepted', `row ${unknown} is of nobody in the roster`);
  }
  const keys = (rows: typeof accepted) => rows.map(({ key }) => key!);
  const { round, result, proposer, reveal, snapshot } = outcome;
  const change: RosterChange = {
    ...{ round, result, proposer, reveal, snapshot },
    seen: [...new Set([...keys(accepted), ...voters.value])],
    accepted: keys(accepted.filter(({ late }) => !late)),
    joins: joins.value,
    leaves: leaves.value,
    faults: faults.value.map(({ culprit }) => culprit),
    ballotKeys: ballots.value,
    beacon: '',
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
    return votes.length === 0 ? found([]) : invalid('no-quorum', 'votes', 'votes before round 0');
  }
  const past: Situation = { spec, run, ...before };
  const certificate = judgeVotes(past, parent, votes, evidence);
  return certificate.ok ? found(certificate.value.commits.map(({ key }) => key)) : certificate;
}

function joinsOf(
  { run, recent }: Chain,
  outcome: Draft,
  evidence: Evidence,
): Verdict<readonly { readonly key: WorkerId; readonly tip: string }[]> {
  const joins = listed(outcome.joins, 'joins', evidence, isJoin);
  if (!joins.ok) return joins;
  const wrong = joins.value.find((join) => join.run !== run || !recent.includes(join.after));
  return wrong === undefined
    ? found(joins.value.map(({ key, tip }) => ({ key, tip })))
    : invalid('old-join', 'joins', `${wrong.id} does not follow one of the last outcomes`);
}

function leavesOf(
  { run, ledger }: Chain,
  outcome: Draft,
  evidence: Evidence,
): Verdict<readonly WorkerId[]> {
  const leaves = listed(outcome.leaves, 'leaves', evidence, isLeave);
  if (!leaves.ok) return leaves;
  const isDue = ({ key, last }: Signed<Leave>): boolean => {
    const joined = ledger.members.find((member) => member.key === key)?.joined ?? 0;
    return last >= joined && last <= outcome.round;
  };
  const wrong = leaves.value.find((leave) => leave.run !== run || !isDue(leave));
  return wrong === undefined
    ? found(leaves.value.map(({ key }) => key))
    : invalid('wrong-leave', 'leaves', `${wrong.id} is not of round ${outcome.round}`);
}

/** Whose ballots a body of a recovery attempt lists; its proposer is of the roster, else of the first committee. */
function ballotsOf(
  chain: Chain,
  { ballots, proposer }: Draft,
  electorate: Electorate,
  evidence: Evidence,
): Verdict<readonly WorkerId[] | null> {
  if (ballots.length > 0) return judgeBallots(chain, ballots, undefined, evidence, electorate);
  return electorate.committee.members.includes(proposer)
    ? found(null)
    : invalid('not-a-member', 'proposer', `${proposer} has no seat in round ${chain.round}`);
}

const isJoin = (noun: Noun): noun is Signed<Join> => noun.type === 'join';
const isLeave = (noun: Noun): noun is Signed<Leave> => noun.type === 'leave';
const isFault = (noun: Noun): noun is Signed<FaultProof> => noun.type === 'fault';
