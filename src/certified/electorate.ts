/** Who votes in a round, in each of its recovery epochs: the committees that follow from the certified past. */

import {
  type CommitteeRules,
  drawCommittee,
  rankOf,
  type Stakes,
  weigh,
} from '../consensus/committee/committee.ts';
import { createElection, type Election } from '../consensus/committee/election.ts';
import { liveOf, type MembershipRules, seatable } from '../consensus/round/membership.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { type Ledger, type Member, snapshotOf } from '../run/ledger.ts';
import { roundName } from '../run/round-name.ts';
import type { RunSpec } from '../run/run-spec.ts';
import { type Evidence, found, lacking, type Verdict } from './evidence.ts';

/** What the committees of a round follow from. */
export interface Situation {
  readonly spec: RunSpec;
  readonly run: Digest;
  readonly round: number;
  readonly parent: Digest;
  /** Of the round, with its entropy. */
  readonly ledger: Ledger;
}

export interface Electorate extends Election {
  readonly roster: readonly WorkerId[];
  /** live(r): who owns the parameters. */
  readonly live: readonly WorkerId[];
  /** Whose contributions a member waits for, at most as long as its grace lasts: live(r) and newcomers in their first rounds. */
  readonly awaited: readonly WorkerId[];
}

/** The rules of membership of a run. */
export const membershipOf = (spec: RunSpec, run: Digest): MembershipRules => ({ ...spec, run });

/** The stakes that count with this ledger; null in a run without. */
export function stakesOf(ledger: Ledger, evidence: Evidence): Verdict<Stakes> {
  const snapshot = snapshotOf(ledger);
  if (snapshot === null) return found(null);
  const stakes = evidence.stakes(snapshot);
  return stakes === undefined ? lacking({ what: 'snapshot', id: snapshot }) : found(stakes);
}

/** A newcomer is waited for in its first rounds: nobody who is as fast as the others should always be a moment too late to be seen. */
const NEWCOMER_ROUNDS = 3;

/** Ascending. */
function awaitedIn({ round, members }: Ledger, live: readonly WorkerId[]): readonly WorkerId[] {
  const isLive = new Set(live);
  const isNew = ({ joined, lastSeen }: Member) =>
    joined > 0 && lastSeen < 0 && round - joined < NEWCOMER_ROUNDS;
  return members.filter((member) => isLive.has(member.key) || isNew(member)).map(({ key }) => key);
}

/** The committees of a round. Throws without the entropy of its ledger. */
export function electorateOf(situation: Situation, stakes: Stakes): Electorate {
  const { spec, run, round, parent, ledger } = situation;
  const { entropy } = ledger;
  if (entropy === null) throw new RangeError(`no entropy in ${roundName(round)}`);
  const live = liveOf(membershipOf(spec, run), ledger);
  const rules: CommitteeRules = spec.committee;
  const about = { run, round, entropy, stakes, rules };
  const election = createElection({
    weighed: weigh({ eligible: seatable(ledger, live), stakes, rules }),
    size: rules.size,
    floorPermille: spec.timing.recoveryFloorPermille,
    rank: (attempt, eligible) => rankOf({ ...about, attempt, eligible }),
    drawFrom: (attempt, eligible, leastQuorum) =>
      drawCommittee({ ...about, attempt, parent, eligible, leastQuorum }),
  });
  const roster = ledger.members.map(({ key }) => key);
  return { ...election, roster, live, awaited: awaitedIn(ledger, live) };
}
