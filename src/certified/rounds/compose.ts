/** Composes the outcome that a worker proposes, and its opinion of other proposals; replays repeat neither. */
import { chooseJoins, joinsBeforeLeaving } from '../../consensus/round/roster-change.ts';
import type { Arrival, Check } from '../../consensus/round/round-state.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import {
  type ListedJoin,
  type ListedLeave,
  type ListedVotes,
  MOST_UNLISTED,
} from '../../run/listed.ts';
import type { AcceptedContribution, Outcome, RejectedContribution } from '../../run/outcome.ts';
import { withFeatures } from '../../run/spec/features.ts';
import type { Join, Leave, Signed } from '../../run/vote.ts';
import { refuseAdmission } from '../decisions/admission.ts';
import { judgeVotes } from '../decisions/certificate.ts';
import {
  type Chain,
  type Draft,
  membershipOf,
  rosterJoin,
  roundAfter,
  stakesOf,
} from '../decisions/chain.ts';
import { unwrapRuling as knownStakes } from '../decisions/contributions.ts';
import type { Evidence, EvidenceStore } from '../decisions/evidence.ts';
import { refuseMachine } from '../decisions/machines.ts';
import { convictedBy, isUpheld } from '../decisions/roster-change.ts';
import type { ContributionOpinion } from '../features/feature.ts';
import type { FaultProof } from '../wire/faults.ts';

/** An available manifest that does not count, for a reason anyone can check. */
export interface Bad {
  readonly worker: WorkerId;
  readonly manifest: EventId;
  readonly reason: string;
}

/** A contribution, by its worker and manifest id. */
export type ContributionRef = Pick<Arrival, 'worker' | 'manifest'>;

/** What a member's own proposal is made from. */
export interface Material {
  readonly me: WorkerId;
  readonly result: Outcome['result'];
  readonly ballots: readonly EventId[];
  readonly reveal: Outcome['reveal'];
  /** Late contributions to the previous round, under `defer`. */
  readonly late: readonly ContributionRef[];
  readonly available: readonly ContributionRef[];
  readonly bad: readonly Bad[];
  /** Quorum of commits of the previous round; null in round 0. */
  readonly votes: ListedVotes | null;
  /** Id of the stake table to name; empty in a run without stakes. */
  readonly snapshot: Digest | '';
  readonly nowMs: number;
}

/** Maximum rejected contributions listed in an outcome. They inform people; the model does not depend on them. */
const MOST_REJECTED = 64;

/** Drafts this worker's outcome without its roots. */
export function draftOf(chain: Chain, evidence: EvidenceStore, material: Material): Draft {
  const { run, round, parent, modelRoot: base, ledger } = chain;
  const { me, result, reveal, ballots, votes, snapshot, nowMs } = material;
  const roster: RosterIndices = new Map(ledger.members.map(({ key }, index) => [key, index]));
  const isVoid = result === 'void';
  const faults = faultsOf(chain, evidence, roster);
  const out = convictedBy(faults);
  const counts = ({ worker }: ContributionRef) => !out.has(worker);
  const rows = isVoid
    ? []
    : [
        ...acceptedOf(roster, material.available.filter(counts), false),
        ...acceptedOf(roster, material.late.filter(counts), true),
      ];
  return {
    run,
    round,
    parent,
    base,
    result,
    reveal,
    ballots,
    time: Math.floor(nowMs / 1000),
    proposer: me,
    accepted: rows.sort((a, b) => a.index - b.index || Number(a.late) - Number(b.late)),
    rejected: isVoid ? [] : rejectedOf(roster, material.bad),
    votes,
    joins: joinsOf(chain, evidence, Math.floor(nowMs / 1000)),
    leaves: leavesOf(chain, evidence),
    faults: faults.map(({ id }) => id),
    features: snapshot === '' ? {} : { stake: { snapshot } },
  };
}

type RosterIndices = ReadonlyMap<WorkerId, number>;

const acceptedOf = (
  roster: RosterIndices,
  contributions: readonly ContributionRef[],
  late: boolean,
): readonly AcceptedContribution[] =>
  contributions.flatMap(({ worker, manifest }) => {
    const index = roster.get(worker);
    return index === undefined ? [] : [{ index, late, manifest }];
  });

const rejectedOf = (roster: RosterIndices, bad: readonly Bad[]): readonly RejectedContribution[] =>
  bad
    .map(({ worker, manifest, reason }) => ({ index: roster.get(worker) ?? -1, manifest, reason }))
    .filter(({ index }) => index >= 0)
    .sort((a, b) => (a.manifest < b.manifest ? -1 : 1))
    .slice(0, MOST_REJECTED);

/** Returns one join per key that may be listed now; none from before the key left or asked to leave. */
function joinsOf(chain: Chain, evidence: EvidenceStore, time: number): readonly ListedJoin[] {
  const messages = [...evidence.messages()];
  const due = messages.filter(
    (message): message is Signed<Leave> => message.type === 'leave' && message.last <= chain.round,
  );
  const leaving = due.map(({ key, last: round }) => ({ key, round }));
  const stakes = knownStakes(stakesOf(chain.ledger, evidence));
  const isUndone = joinsBeforeLeaving([...leaving, ...chain.departed]);
  const fresh = messages.filter((message): message is Signed<Join> => {
    if (message.type !== 'join') return false;
    const after = roundAfter(chain, message.after);
    if (after === undefined || isUndone({ key: message.key, after })) return false;
    const { isSigned } = evidence;
    const { spec, run } = chain;
    const unfit = refuseAdmission(spec, run, stakes, message, isSigned);
    return (unfit ?? refuseMachine(spec, run, message, time)) === undefined;
  });
  const latest = chain.spec.seatWishes ? newestOfEach(chain, fresh) : fresh;
  const asking = new Map(firstOfEach(latest, ({ key }) => key).map((join) => [join.key, join]));
  const known = [...asking.values()].map((join) => rosterJoin(chain, join));
  return chooseJoins(membershipOf(chain.spec, chain.run), chain.ledger, known)
    .map((chosen) => {
      const { key, after, tip, evidence, features, signature } = asking.get(chosen.key)!;
      return { key, after, tip, evidence, ...withFeatures(features), ...signature! };
    })
    .sort(byKey);
}

/** Returns each key's joins that name its latest outcome: its most recent wish. */
function newestOfEach(chain: Chain, joins: readonly Signed<Join>[]): readonly Signed<Join>[] {
  const round = ({ after }: Join) => roundAfter(chain, after) ?? -1;
  const last = new Map<WorkerId, number>();
  for (const join of joins) last.set(join.key, Math.max(last.get(join.key) ?? -1, round(join)));
  return joins.filter((join) => round(join) === last.get(join.key));
}

/** Returns one leave per member that wants to leave by this round; ignores leaves from before it last joined. */
function leavesOf({ round, ledger }: Chain, evidence: EvidenceStore): readonly ListedLeave[] {
  const joined = new Map(ledger.members.map((member) => [member.key, member.joined]));
  const due = [...evidence.messages()].filter(
    (message): message is Signed<Leave> =>
      message.type === 'leave' &&
      message.last <= round &&
      message.last >= (joined.get(message.key) ?? Number.POSITIVE_INFINITY),
  );
  return firstOfEach(due, ({ key }) => key)
    .map(({ key, last, signature }) => ({ key, last, ...signature! }))
    .sort(byKey);
}

/** Returns one fault proof per culprit in the roster, sorted by id. */
function faultsOf(
  chain: Chain,
  evidence: EvidenceStore,
  roster: RosterIndices,
): readonly Signed<FaultProof>[] {
  const proofs = [...evidence.messages()].filter(
    (message): message is Signed<FaultProof> =>
      message.type === 'fault' && roster.has(message.culprit) && isUpheld(chain, message, evidence),
  );
  return [...firstOfEach(proofs, ({ culprit }) => culprit)].sort((a, b) => (a.id < b.id ? -1 : 1));
}

function firstOfEach<T extends { readonly id: EventId }>(
  messages: readonly T[],
  keyOf: (message: T) => WorkerId,
): readonly T[] {
  const first = new Map<WorkerId, T>();
  for (const message of messages) {
    const before = first.get(keyOf(message));
    if (before === undefined || message.id < before.id) first.set(keyOf(message), message);
  }
  return [...first.values()];
}

const byKey = (a: { readonly key: WorkerId }, b: { readonly key: WorkerId }): number =>
  a.key < b.key ? -1 : 1;

/** What this worker's opinion depends on: contributions that arrived in time and have weight, and everything below. */
export interface Sight {
  readonly available: readonly Arrival[];
  /** Workers whose late contributions must be listed, under `defer`. */
  readonly owed: readonly WorkerId[];
  /** Whether this worker accepts the stake table that the outcome names. */
  readonly hasStakes: boolean;
  readonly nowMs: number;
  /** Opinion of a feature that measures contributions, and the current view. */
  readonly judgment?: ContributionOpinion | undefined;
  readonly view?: number;
}

/**
 * Returns whether this worker accepts a valid outcome, and which contributions it misses in it. Depends on this
 * worker's clock and on what reached it.
 */
export function opinionOf(
  { spec, ledger }: Chain,
  outcome: Outcome,
  { available, owed, hasStakes, nowMs, judgment, view = 0 }: Sight,
): Pick<Check, 'acceptable' | 'unlisted'> {
  // by worker: a contribution that was signed again has several events, and members may know different ones
  const counted = outcome.accepted.filter((row) => !row.late);
  const listed = new Set(counted.map(({ index }) => ledger.members[index]?.key));
  const refused = new Set(outcome.rejected.map(({ manifest }) => manifest));
  const good =
    judgment === undefined ? available : available.filter((row) => judgment.isGood(row.manifest));
  const left = available.filter(
    ({ worker, manifest }) => !listed.has(worker) && !refused.has(manifest),
  );
  const proposable = left.filter(({ manifest }) => judgment?.mayPropose(manifest) ?? true);
  const isHarmless = outcome.accepted.every(
    ({ manifest }) => judgment?.mayAccept(manifest, view) ?? true,
  );
  const isTimely = Math.abs(outcome.time * 1000 - nowMs) <= spec.timing.skewMs;
  const isVoid = outcome.result === 'void';
  const enough =
    good.filter(({ worker }) => listed.has(worker)).length * 1000 >=
    spec.minAcceptPermille * good.length;
  const late = outcome.accepted.filter((row) => row.late);
  const hasOwed = owed.every((key) => late.some(({ index }) => ledger.members[index]?.key === key));
  const acceptable = isTimely && hasStakes && (isVoid || (enough && hasOwed && isHarmless));
  return { acceptable, unlisted: rosterIndicesOf(ledger, proposable) };
}

/** Returns the roster indices of these workers, ascending, at most as many as fit in fit in a vote. */
export function rosterIndicesOf(
  { members }: Ledger,
  rows: readonly ContributionRef[],
): readonly number[] {
  const indices = new Map(members.map(({ key }, index) => [key, index]));
  return [...new Set(rows.flatMap(({ worker }) => indices.get(worker) ?? []))]
    .sort((a, b) => a - b)
    .slice(0, MOST_UNLISTED);
}

/**
 * Returns the authors of available late contributions that more than K - k listed votes name as received in time: at
 * least one of those voters is honest. Manifests that this member lacks cannot make it wait.
 */
export function owedIn(
  { spec, run, parent, before }: Chain,
  { votes }: Outcome,
  late: readonly ContributionRef[],
  evidence: Evidence,
): readonly WorkerId[] {
  if (before === null || late.length === 0) return [];
  const judged = judgeVotes({ spec, run, ...before }, parent, votes, evidence);
  if (!judged.ok) return [];
  const { commits, committee } = judged.value;
  const most = committee.size - committee.quorum;
  const roster = before.ledger.members.map(({ key }) => key);
  const isOwed = ({ worker }: ContributionRef): boolean =>
    commits.filter(({ unlisted }) => unlisted.includes(roster.indexOf(worker))).length > most;
  return late.filter(isOwed).map(({ worker }) => worker);
}
