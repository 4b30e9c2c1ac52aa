/**
 * Computes the roster change of an outcome: joins, leaves and ejections. A failed-check proof counts if a quorum of the
 * next round's committee signed its verdicts.
 */
import { toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash, u32 } from '../../base/hash.ts';
import { type Stakes, weigh } from '../../consensus/committee/committee.ts';
import { drawnOf } from '../../consensus/committee/draw.ts';
import { cappedStakes, hasQuorum, quorumOf } from '../../consensus/committee/quorum.ts';
import type { RosterChange } from '../../consensus/round/membership.ts';
import { joinsBeforeLeaving, refuseChange } from '../../consensus/round/roster-change.ts';
import { scoreAt, type Witnessed } from '../../consensus/scores.ts';
import type { Committee, Drawn } from '../../run/committee.ts';
import { type EventId, roundName, type WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import { withFeatures } from '../../run/spec/features.ts';
import type { Join, Signed } from '../../run/vote.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { CheckProof, FaultProof } from '../wire/faults.ts';
import { rebuildEvent } from '../wire/messages.ts';
import { refuseAdmission } from './admission.ts';
import { type JudgedCertificate, judgeViewChanges, judgeVotes, listed } from './certificate.ts';
import {
  type Chain,
  type Draft,
  type Electorate,
  electorateOf,
  type FinishedRound,
  membershipOf,
  rosterJoin,
  roundAfter,
  type Situation,
  stakesOf,
} from './chain.ts';
import { unwrapRuling } from './contributions.ts';
import { type Evidence, invalid, type Ruling, valid } from './evidence.ts';
import { refuseMachine } from './machines.ts';

/**
 * Returns the roster change of an outcome, or why it is invalid. The caller fills in `beacon`, `rowSize` and
 * `outerSizes`.
 */
export function rosterChange(
  chain: Chain,
  outcome: Draft,
  electorate: Electorate,
  evidence: Evidence,
): Ruling<RosterChange> {
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
    return invalid(
      'not-in-roster',
      'accepted',
      `contribution ${unknown} names no member of the roster`,
    );
  }
  const drawn = drawnOf(membershipOf(chain.spec, chain.run), chain.ledger);
  if (drawn !== null && accepted.some(({ key }) => !drawn.has(key!))) {
    return invalid('not-drawn', 'accepted', 'a contribution is from a key that was not drawn');
  }
  const keys = (rows: typeof accepted) => rows.map(({ key }) => key!);
  const dropped = keys(accepted).find((key) => convictedBy(faults.value).has(key));
  if (dropped)
    return invalid(
      'row-of-ejected',
      'accepted',
      `${dropped} is ejected by this outcome, yet its contribution is listed`,
    );
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
    deleted: voters.value.deleted,
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
    ? valid(change)
    : invalid(wrong, 'roster', `the roster change is not allowed: ${wrong}`);
}

interface Voters {
  readonly keys: readonly WorkerId[];
  /** Weighted medians of the scores in their votes, by contributor to the round before theirs. */
  readonly scores: ReadonlyMap<WorkerId, number> | null;
  /** Deleted notes that at least one honest voter names. */
  readonly deleted: readonly number[];
}

/**
 * Returns who signed the listed votes. Keys proven faulty stay among them, since a certificate must not depend on who
 * has seen the proof; their scores are ignored.
 */
function votersOf(
  { spec, run, before, parent, ledger }: Chain,
  { votes }: Draft,
  culprits: readonly WorkerId[],
  evidence: Evidence,
): Ruling<Voters> {
  if (before === null) {
    return votes === null
      ? valid({ keys: [], scores: null, deleted: [] })
      : invalid('no-quorum', 'votes', 'votes before round 0');
  }
  const situation: Situation = { spec, run, ...before };
  const certificate = judgeVotes(situation, parent, votes, evidence);
  if (!certificate.ok) return certificate;
  const out = new Set([...ledger.faulted, ...culprits]);
  const scores = spec.scores ? scoresOf(before, certificate.value, out) : null;
  const keys = certificate.value.commits.map(({ key }) => key);
  return valid({ keys, scores, deleted: deletedIn(certificate.value) });
}

/** Returns the notes that more of the listed commits name than the committee may have liars. */
function deletedIn({ committee, commits }: JudgedCertificate): readonly number[] {
  const counts = new Map<number, number>();
  for (const note of commits.flatMap(({ features }) => features?.notes?.deleted ?? [])) {
    counts.set(note, (counts.get(note) ?? 0) + 1);
  }
  return [...counts.keys()].filter((note) => counts.get(note)! > committee.size - committee.quorum);
}

/**
 * Returns the score of each member that could contribute to the previous round, from the listed commits; null if too
 * few commits score it.
 */
function scoresOf(
  { round, ledger }: FinishedRound,
  { committee, commits }: JudgedCertificate,
  out: ReadonlySet<WorkerId>,
): ReadonlyMap<WorkerId, number> | null {
  const weights = new Map(committee.members.map((key, seat) => [key, committee.weights[seat]!]));
  const witnesses = commits
    .filter(({ key }) => !out.has(key))
    .map(
      ({ key, features }): Witnessed => ({
        weight: weights.get(key) ?? 0n,
        scores: new Map(features?.scores?.of ?? []),
      }),
    );
  const scores = new Map<WorkerId, number>();
  for (const [index, { key, joined }] of ledger.members.entries()) {
    // not in the roster then, so it could send nothing
    if (joined >= round) continue;
    const score = scoreAt(index, witnesses);
    if (score === null) return null;
    scores.set(key, score);
  }
  return scores;
}

/**
 * Returns the error of the first listed join that names no recent outcome, predates a leave of its key, is not
 * admitted, or has an invalid signature.
 */
function wrongJoin(
  chain: Chain,
  { joins, time }: Draft,
  stakes: Stakes,
  evidence: Evidence,
): ReturnType<typeof invalid> | undefined {
  const { run, spec } = chain;
  const isUndone = joinsBeforeLeaving(chain.departed);
  for (const { key, after, tip, evidence: shownEvidence, features, ...signature } of joins) {
    const followed = roundAfter(chain, after);
    if (followed === undefined) {
      return invalid('old-join', 'joins', `the join of ${key} names no recent outcome`);
    }
    if (isUndone({ key, after: followed })) {
      return invalid('join-before-leave', 'joins', `the join of ${key} predates its leave`);
    }
    const asking = { key, evidence: shownEvidence, ...withFeatures(features) };
    const unfit = refuseAdmission(spec, run, stakes, asking, evidence.isSigned);
    if (unfit) return invalid(unfit, 'joins', `the join of ${key} is not admitted: ${unfit}`);
    const other = refuseMachine(spec, run, { ...asking, after }, time);
    if (other) return invalid(other.code, `joins.${other.at}`, `${key}: ${other.message}`);
    const join: Join = {
      type: 'join',
      run,
      after,
      tip,
      evidence: shownEvidence,
      ...withFeatures(features),
    };
    if (evidence.isSigned(rebuildEvent(join, key, signature))) continue;
    return invalid('bad-signature', 'joins', `the join of ${key} has an invalid signature`);
  }
  return undefined;
}

/** Returns the error of the first listed leave that is for another round or has an invalid signature. */
function wrongLeave(
  { run, ledger }: Chain,
  { leaves, round }: Draft,
  evidence: Evidence,
): ReturnType<typeof invalid> | undefined {
  for (const { key, last, ...signature } of leaves) {
    const joined = ledger.members.find((member) => member.key === key)?.joined ?? 0;
    if (last < joined || last > round) {
      return invalid('wrong-leave', 'leaves', `the leave of ${key} is not for ${roundName(round)}`);
    }
    if (evidence.isSigned(rebuildEvent({ type: 'leave', run, last }, key, signature))) continue;
    return invalid('bad-signature', 'leaves', `the leave of ${key} has an invalid signature`);
  }
  return undefined;
}

/**
 * Returns the authors of the listed view-change votes if they decide who is counted, and checks that the proposer may
 * sit. With sampled seats the list has no effect, so a replay does not need its events: null.
 */
function viewChangesOf(
  chain: Chain,
  { ballots, proposer }: Draft,
  electorate: Electorate,
  evidence: Evidence,
): Ruling<readonly WorkerId[] | null> {
  const isRecovered = ballots.length > 0;
  const { eligible, committee, isSampled } = electorate;
  return (isRecovered ? eligible : committee.members).includes(proposer)
    ? isRecovered && !isSampled
      ? judgeViewChanges(chain, ballots, undefined, evidence, electorate)
      : valid(null)
    : invalid('not-a-member', 'proposer', `${proposer} has no seat in ${roundName(chain.round)}`);
}

/** Minimum verdicts of a conviction, so that no single member can eject another, however small the committee. */
const LEAST_VERDICTS = 2;

/** Juries by ledger and round, cached: strangers may send any number of proofs that do not count. */
const juries = new WeakMap<Ledger, Map<number, Committee>>();

/**
 * Returns the jury on contributions of round `checked`: the next round's committee as it sat, with current weights. Its
 * size and quorum include members that have left since, so that those who stay cannot convict with fewer verdicts.
 */
export function juryOf(chain: Chain, checked: number, evidence: Evidence): Committee {
  const drawn = juries.get(chain.ledger) ?? new Map<number, Committee>();
  juries.set(chain.ledger, drawn);
  const jury = drawn.get(checked) ?? drawJury(chain, checked, evidence);
  // an empty jury is not cached: proofs may name any round
  if (jury.size > 0) drawn.set(checked, jury);
  return jury;
}

function drawJury(chain: Chain, checked: number, evidence: Evidence): Committee {
  const stakes = unwrapRuling(stakesOf(chain.ledger, evidence));
  const { committee: rules } = chain.spec;
  const sat = checked + 1;
  const seated = (): readonly WorkerId[] => {
    const { members, features } = chain.ledger;
    const former = features.jury?.left ?? [];
    const sitting = members.map(
      (member) => [member.key, member.features?.jury?.sat ?? []] as const,
    );
    const keys = [...sitting, ...former].filter(([, rounds]) => rounds.includes(sat));
    return [...new Set(keys.map(([key]) => key))].sort();
  };
  const eligible = sat === chain.round ? electorateOf(chain, stakes).committee.members : seated();
  const weights = new Map(
    weigh({ eligible, stakes, rules }).map(({ key, weight }) => [key, weight]),
  );
  const quorum = quorumOf(rules.quorum, eligible.length);
  return {
    round: sat,
    attempt: 0,
    ctx: '',
    size: eligible.length,
    quorum,
    members: eligible,
    weights: cappedStakes(
      eligible.map((key) => weights.get(key) ?? 0n),
      quorum,
    ),
  };
}

export function convicts(jury: Committee, keys: readonly WorkerId[]): boolean {
  const jurors = keys.filter((key) => jury.members.includes(key));
  return jurors.length >= LEAST_VERDICTS && hasQuorum(jury, jurors);
}

/** Reports whether a proof ejects its culprit from the next round. */
export function isUpheld(chain: Chain, proof: FaultProof, evidence: Evidence): boolean {
  if (proof.kind !== 'failed-check') return true;
  const { verdicts } = proof;
  const [{ checked }] = verdicts as readonly [(typeof verdicts)[number]];
  const jury = juryOf(chain, checked, evidence);
  const seated = verdicts.filter(({ key }) => jury.members.includes(key));
  // signature checks cost most, so votes of non-jurors are never checked
  if (
    !convicts(
      jury,
      seated.map(({ key }) => key),
    )
  )
    return false;
  return convicts(
    jury,
    seated.filter(({ event }) => evidence.isSigned(event)).map(({ key }) => key),
  );
}

/** Returns the proofs that an outcome lists; invalid (`weak-proof`) if one of them does not count. */
function upheldIn(
  chain: Chain,
  faults: readonly EventId[],
  evidence: Evidence,
): Ruling<readonly Signed<FaultProof>[]> {
  const proofs = listed(faults, 'faults', evidence, isFault);
  if (!proofs.ok) return proofs;
  const weak = proofs.value.find((proof) => !isUpheld(chain, proof, evidence));
  return weak === undefined
    ? proofs
    : invalid('weak-proof', 'faults', `the verdicts on ${weak.culprit} are not enough`);
}

const isFault = (message: ProtocolMessage): message is Signed<FaultProof> =>
  message.type === 'fault';

/** Returns the keys that failed-check proofs eject; their contributions do not count any more. */
export const convictedBy = (proofs: readonly FaultProof[]): ReadonlySet<WorkerId> =>
  new Set(proofs.filter(isConviction).map(({ culprit }) => culprit));

const isConviction = (proof: FaultProof): proof is CheckProof => proof.kind === 'failed-check';

/** Returns those listed proofs that are available. */
export const proofsIn = (
  faults: readonly string[],
  { message }: Pick<Evidence, 'message'>,
): readonly Signed<FaultProof>[] =>
  faults.flatMap((id) => {
    const proof = message(id);
    return proof?.type === 'fault' ? [proof] : [];
  });

/** Returns the committee members without the author, in the order in which they check a drawn contribution. */
export function jurorsOf(
  { run, round, worker, entropy }: Drawn,
  members: readonly WorkerId[],
): readonly WorkerId[] {
  const parts = [bytes32(run), u32(round), bytes32(worker), bytes32(entropy)];
  return members
    .filter((key) => key !== worker)
    .map((key) => ({ key, lot: toHex(taggedHash('nostrain/jury/1', ...parts, bytes32(key))) }))
    .sort((a, b) => (a.lot < b.lot ? -1 : 1))
    .map(({ key }) => key);
}
