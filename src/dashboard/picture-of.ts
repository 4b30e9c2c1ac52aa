/** Computes the picture of a certified run from its verified messages: a pure function, without the model. */
import { type Chain, electorateOf, stakesOf, withEntropy } from '../certified/decisions/chain.ts';
import type { Gathered } from '../certified/decisions/evidence.ts';
import { seatActing } from '../certified/decisions/founders.ts';
import { type ReplayedRound, replay, withoutModel } from '../certified/decisions/replay.ts';
import type { ProtocolMessage } from '../certified/wire/certified-events.ts';
import { rollingScore } from '../consensus/scores.ts';
import type { Manifest } from '../network/wire/manifests.ts';
import { type Heartbeat, isStale } from '../run/contribution.ts';
import type { WorkerId } from '../run/ids.ts';
import { principalOf } from '../run/spec/feature-fields.ts';
import type {
  OpenRoundPicture,
  RoundPicture,
  RunPicture,
  SentPicture,
  WorkerPicture,
} from './run-picture.ts';

export interface Seen {
  /** State of the run before its first round, without the model. */
  readonly start: Chain;
  readonly gathered: Gathered;
  readonly heartbeats: ReadonlyMap<WorkerId, Heartbeat>;
  /** Time of the last event of each key, in Unix seconds. */
  readonly lastSigns: ReadonlyMap<WorkerId, number>;
  readonly nowSeconds: number;
  /** Rounds already replayed, which are not replayed again; `start` is still the start of the run. */
  readonly settled?: readonly ReplayedRound[] | undefined;
}

/** The finished rounds, the current round and the workers of a picture, and the replayed rounds. */
export interface RunProgress extends Pick<RunPicture, 'rounds' | 'workers'> {
  readonly open: OpenRoundPicture | undefined;
  readonly replayed: readonly ReplayedRound[];
  /** State after the last decided round, without the model. */
  readonly tip: Chain;
}

/** Contributions report losses in millionths. */
const MILLION = 1e6;
const lossOf = (millionths: number | null | undefined): number | undefined =>
  typeof millionths === 'number' ? millionths / MILLION : undefined;
/** A worker counts as away after this many missed heartbeats. */
const MOST_MISSED = 3;

/** Replays the run as far as its messages go, and returns its progress. */
export function computeProgress(seen: Seen): RunProgress {
  const { start, gathered, settled = [] } = seen;
  const byRound = manifestsByRound(gathered);
  const last = settled.at(-1);
  const replayed: ReplayedRound[] = settled.slice(0, -1);
  const playing = replay(withoutModel(last?.before ?? start), gathered);
  let next = playing.next();
  for (; !next.done; next = playing.next()) replayed.push(next.value);
  const tip = seatActing(next.value.state, gathered.messages.values(), gathered);
  const rounds = replayed.flatMap((each) => {
    const picture = roundOf(each, gathered, byRound, seen.heartbeats);
    return picture === undefined ? [] : [picture];
  });
  const isOver = tip.round >= start.spec.training.rounds;
  const problem = replayed.at(-1)?.decided ? undefined : replayed.at(-1);
  const open = isOver ? undefined : openRound(tip, gathered, byRound, problem);
  return {
    rounds,
    open,
    workers: workersOf(tip, rounds, byRound, seen, principalsIn(replayed)),
    replayed,
    tip,
  };
}

type ByRound = ReadonlyMap<number, readonly Manifest[]>;

const manifestsByRound = ({ messages }: Gathered): ByRound =>
  groupBy(
    [...messages.values()].flatMap((each) => (each.type === 'manifest' ? [each.manifest] : [])),
    ({ round }) => round,
  );

function groupBy<K, T>(items: readonly T[], keyOf: (item: T) => K): ReadonlyMap<K, readonly T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

/** Returns the contributions announced in a round, one per member. */
function sentIn(byRound: ByRound, round: number, roster: readonly WorkerId[]): SentPicture[] {
  const members = new Set(roster);
  const once = new Map<WorkerId, SentPicture>();
  for (const { worker, bytes, createdAt: at, features } of byRound.get(round) ?? []) {
    if (!members.has(worker) || once.has(worker)) continue;
    const millionths = features?.telemetry?.own;
    once.set(worker, {
      worker,
      bytes,
      at,
      loss: lossOf(millionths),
    });
  }
  return [...once.values()].sort((a, b) => a.at - b.at || (a.worker < b.worker ? -1 : 1));
}

function roundOf(
  { round, before, decided, forks, invalid }: ReplayedRound,
  gathered: Gathered,
  byRound: ByRound,
  heartbeats: Seen['heartbeats'],
): RoundPicture | undefined {
  if (decided === undefined) return undefined;
  const { outcome, certificate } = decided;
  const roster = before.ledger.members.map(({ key }) => key);
  const keyOf = (index: number) => roster[index] ?? '';
  const sent = sentIn(byRound, round, roster);
  const losses = sent.flatMap(({ loss }) => (loss === undefined ? [] : [loss]));
  return {
    round,
    result: outcome.result,
    time: outcome.time,
    outcome: certificate.digest,
    proposer: outcome.proposer,
    attempt: certificate.attempt,
    view: certificate.view,
    roster,
    committee: certificate.committee.members,
    sent,
    quorum: certificate.committee.quorum,
    signers: certificate.commits.map(({ key }) => key),
    accepted: outcome.accepted.map(({ index, late }) => ({ worker: keyOf(index), late })),
    rejected: outcome.rejected.map(({ index, reason }) => ({ worker: keyOf(index), reason })),
    joined: outcome.joins.map(({ key }) => key).filter((key) => !roster.includes(key)),
    left: outcome.leaves.map(({ key }) => key),
    faults: outcome.faults.flatMap((id) => faultOf(gathered.message(id))),
    forks,
    modelRoot: outcome.modelRoot,
    ledgerRoot: outcome.ledgerRoot,
    trainingLoss:
      losses.length > 0 ? losses.reduce((sum, loss) => sum + loss, 0) / losses.length : undefined,
    ...sharedAfter(round, roster, byRound, heartbeats),
    problem: invalid && `${invalid.code}: ${invalid.message}`,
  };
}

const faultOf = (message: ProtocolMessage | undefined) =>
  message?.type === 'fault' ? [{ worker: message.culprit, kind: message.kind }] : [];

/** Returns what members report at the start of the next round: the median of each number, and the first text by key. */
function sharedAfter(
  round: number,
  roster: readonly WorkerId[],
  byRound: ByRound,
  heartbeats: Seen['heartbeats'],
): Pick<RoundPicture, 'sharedLoss' | 'bitsPerByte' | 'accuracy' | 'sample'> {
  const members = new Set(roster);
  const next = round + 1;
  const reports = [
    ...(byRound.get(next) ?? []).map(({ worker, features }) => ({ worker, features })),
    ...[...heartbeats.values()].filter((each) => each.round === next),
  ]
    .filter(({ worker }) => members.has(worker))
    .sort((a, b) => (a.worker < b.worker ? -1 : 1))
    .flatMap(({ features }) =>
      features?.telemetry ? [{ right: null, ...features.telemetry, ...features.accuracy }] : [],
    );
  const numbers = (name: 'shared' | 'bits' | 'right') =>
    reports.flatMap((each) => (each[name] === null ? [] : [each[name] / MILLION]));
  return {
    sharedLoss: median(numbers('shared')),
    bitsPerByte: median(numbers('bits')),
    accuracy: median(numbers('right')),
    sample: reports.find((each) => each.sample !== '')?.sample,
  };
}

function median(values: readonly number[]): number | undefined {
  const rising = [...values].sort((a, b) => a - b);
  return rising[(rising.length - 1) >> 1];
}

/** Describes the current round: votes so far, and committee members not heard of. */
function openRound(
  tip: Chain,
  gathered: Gathered,
  byRound: ByRound,
  problem: ReplayedRound | undefined,
): OpenRoundPicture {
  const { round, parent, ledger, time: since } = tip;
  const roster = ledger.members.map(({ key }) => key);
  const sent = sentIn(byRound, round, roster);
  const votes = votesIn(tip, gathered, new Set(roster));
  const drawn = committeeOf(tip, gathered, votes);
  const committee = drawn?.members ?? [];
  const heard = new Set([...votes.prepared, ...votes.committed, ...votes.viewChanges]);
  for (const { worker } of [...votes.proposed, ...sent]) heard.add(worker);
  const missing = committee.filter((key) => !heard.has(key));
  return {
    round,
    since,
    roster,
    committee,
    quorum: drawn?.quorum ?? 0,
    sent,
    missing,
    ...votes,
    lacks: parent === '' ? undefined : lackOf(problem),
  };
}

function lackOf(problem: ReplayedRound | undefined): string | undefined {
  if (problem?.invalid) return problem.invalid.message;
  const [first] = problem?.missing ?? [];
  return first && `${first.what} ${first.id}`;
}

type Votes = Pick<
  OpenRoundPicture,
  'attempt' | 'view' | 'proposed' | 'prepared' | 'committed' | 'viewChanges'
>;

function votesIn(tip: Chain, { messages }: Gathered, roster: ReadonlySet<WorkerId>): Votes {
  const proposed = new Map<WorkerId, number>();
  const prepared = new Set<WorkerId>();
  const committed = new Set<WorkerId>();
  const viewChanges = new Set<WorkerId>();
  let [attempt, view] = [0, 0];
  for (const message of messages.values()) {
    const { type, key } = message;
    if (type !== 'vote' && type !== 'proposal' && type !== 'ballot') continue;
    if (message.round !== tip.round || message.parent !== tip.parent || !roster.has(key)) continue;
    attempt = Math.max(attempt, message.attempt);
    if (type === 'ballot') viewChanges.add(key);
    else {
      view = Math.max(view, message.view);
      if (type === 'proposal') proposed.set(key, Math.max(message.view, proposed.get(key) ?? 0));
      else (message.step === 'commit' ? committed : prepared).add(key);
    }
  }
  return {
    attempt,
    view,
    proposed: [...proposed].map(([worker, at]) => ({ worker, view: at })),
    prepared: [...prepared],
    committed: [...committed],
    viewChanges: [...viewChanges],
  };
}

/** Returns the committee of the newest recovery epoch that members name; undefined if it is not known yet. */
function committeeOf(tip: Chain, gathered: Gathered, { attempt, viewChanges }: Votes) {
  const ready = withEntropy(tip, gathered);
  if (!ready.ok) return undefined;
  const stakes = stakesOf(ready.value.ledger, gathered);
  if (!stakes.ok) return undefined;
  const electorate = electorateOf(ready.value, stakes.value);
  const isRecovering = attempt > 0 && electorate.isFloor(viewChanges);
  return isRecovering ? electorate.draw(attempt, viewChanges) : electorate.committee;
}

/** Returns the principal of each session key that was a member: its row ends with its delegation. */
const principalsIn = (replayed: readonly ReplayedRound[]): ReadonlyMap<WorkerId, WorkerId> =>
  new Map(
    replayed
      .flatMap(({ before }) => before.ledger.members)
      .map((member) => [member.key, principalOf(member)]),
  );

/** Returns all workers that are or were in the roster, by key. */
function workersOf(
  tip: Chain,
  rounds: readonly RoundPicture[],
  byRound: ByRound,
  seen: Seen,
  principals: ReadonlyMap<WorkerId, WorkerId>,
): readonly WorkerPicture[] {
  const members = new Map(tip.ledger.members.map((member) => [member.key, member]));
  const keys = new Set([...members.keys(), ...rounds.flatMap(({ roster }) => roster)]);
  const counted = groupBy(
    rounds.flatMap(({ accepted }) => accepted),
    ({ worker }) => worker,
  );
  const sent = groupBy([...byRound.values()].flat(), ({ worker }) => worker);
  const seats = new Set(rounds.at(-1)?.committee);
  return [...keys].sort().map((worker): WorkerPicture => {
    const member = members.get(worker);
    const heartbeat = seen.heartbeats.get(worker);
    const contributions = sent.get(worker) ?? [];
    const last = contributions.reduce<Manifest | undefined>(
      (a, b) => (a && a.round >= b.round ? a : b),
      undefined,
    );
    const { history = [], low } = member?.features?.scores ?? {};
    const principal = member ? principalOf(member) : principals.get(worker);
    const report = heartbeat?.features?.telemetry ?? last?.features?.telemetry;
    return {
      worker,
      ...(heartbeat?.name !== undefined && { name: heartbeat.name }),
      inRoster: member !== undefined,
      hasSeat: seats.has(worker),
      ...(principal !== worker && principal !== undefined && { principal }),
      isFaulted: tip.ledger.faulted.includes(worker),
      joined: member?.joined ?? 0,
      lastSign: seen.lastSigns.get(worker) ?? 0,
      isAway: isAway(worker, seen),
      round: Math.max(heartbeat?.round ?? 0, last?.round ?? 0),
      counted: counted.get(worker)?.length ?? 0,
      sent: contributions.length,
      bytes: contributions.reduce((sum, { bytes }) => sum + bytes, 0),
      device: report?.device || undefined,
      loss: lossOf(last?.features?.telemetry?.own),
      score: history.length > 0 ? rollingScore(history) : undefined,
      isLow: history.length > 0 ? low === 1 : undefined,
    };
  });
}

/** Reports whether a worker's heartbeat is overdue and no other event of it arrived. */
function isAway(worker: WorkerId, { heartbeats, lastSigns, nowSeconds }: Seen): boolean {
  const heartbeat = heartbeats.get(worker);
  if (heartbeat === undefined) return true;
  const createdAt = Math.max(heartbeat.createdAt, lastSigns.get(worker) ?? 0);
  return isStale({ ...heartbeat, createdAt }, nowSeconds, MOST_MISSED);
}
