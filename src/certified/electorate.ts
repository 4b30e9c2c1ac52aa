/** Who votes in a round, in its first attempt and in recoveries: the committees that follow from the certified past. */
import {
  type CommitteeRules,
  drawCommittee,
  rankOf,
  type Stakes,
} from '../consensus/committee/committee.ts';
import { liveOf, type MembershipRules, seatable } from '../consensus/round/membership.ts';
import type { Committee } from '../run/committee.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { type Ledger, snapshotOf } from '../run/ledger.ts';
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

export interface Electorate {
  readonly roster: readonly WorkerId[];
  /** live(r): whose manifests are waited for, and who owns the parameters. */
  readonly live: readonly WorkerId[];
  /** Of the first attempt. */
  readonly committee: Committee;
  /** Who proposes in a recovery attempt: the roster by rank. */
  proposers(attempt: number): readonly WorkerId[];
  /** Who votes in a recovery attempt when these signed its ballots. */
  draw(attempt: number, keys: readonly WorkerId[]): Committee;
  /** Whether ballots of these keys are enough for a recovery. */
  isFloor(keys: readonly WorkerId[]): boolean;
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

/** The committees of a round. Throws without the entropy of its ledger. */
export function electorateOf(situation: Situation, stakes: Stakes): Electorate {
  const { spec, run, round, parent, ledger } = situation;
  const { entropy } = ledger;
  if (entropy === null) throw new RangeError(`no entropy in round ${round}`);
  const roster = ledger.members.map(({ key }) => key);
  const live = liveOf(membershipOf(spec, run), ledger);
  const rules: CommitteeRules = spec.committee;
  const draw = (attempt: number, keys: readonly WorkerId[]): Committee => {
    const members = new Set(roster);
    const eligible = seatable(
      ledger,
      [...new Set(keys)].filter((key) => members.has(key)),
    );
    return drawCommittee({ run, round, attempt, parent, entropy, eligible, stakes, rules });
  };
  return {
    roster,
    live,
    committee: draw(0, live),
    proposers: (attempt) =>
      rankOf({
        ...{ run, round, attempt, entropy, stakes, rules },
        eligible: seatable(ledger, roster),
      }),
    draw,
    isFloor: (keys) => isFloor(roster, keys, spec, stakes),
  };
}

/** At least one key, and the share of the roster's weight that the run asks for. */
function isFloor(
  roster: readonly WorkerId[],
  keys: readonly WorkerId[],
  { committee, timing }: RunSpec,
  stakes: Stakes,
): boolean {
  const listed = new Set(keys);
  const weightOf = (key: WorkerId): bigint => {
    if (stakes === null) return 1n;
    const stake = stakes.get(key) ?? 0n;
    if (stake < 1n || stake < BigInt(committee.minStake)) return 0n;
    return committee.weights === 'stake' ? stake : 1n;
  };
  const sum = (all: readonly WorkerId[]) => all.reduce((total, key) => total + weightOf(key), 0n);
  const theirs = sum(roster.filter((key) => listed.has(key)));
  return theirs > 0n && theirs * 1000n >= BigInt(timing.recoveryFloorPermille) * sum(roster);
}
