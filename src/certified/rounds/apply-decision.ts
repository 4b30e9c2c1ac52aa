/** Applies a decided round: the next state and its summary; and the search for copies of a round by its members. */
import { within } from '../../base/async.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import type { ListedVotes } from '../../run/listed.ts';
import type { Outcome } from '../../run/outcome.ts';
import { evaluate } from '../../worker/apply-round.ts';
import type { RoundSummary } from '../../worker/events.ts';
import { idOf, withRound } from '../../worker/state.ts';
import type { RoundResult } from '../../worker/strategy.ts';
import { listVotes } from '../decisions/certificate.ts';
import {
  chainHeadOf,
  type Decision,
  electorateOf,
  type ReadyRound,
  stakesOf,
} from '../decisions/chain.ts';
import { unwrapRuling as settled } from '../decisions/contributions.ts';
import type { Evidence } from '../decisions/evidence.ts';
import { localSliceRoots } from '../decisions/slices.ts';
import { featuresOf } from '../features/list.ts';
import { type CertifiedState, carryOver } from '../state.ts';
import { isCommit } from '../wire/certified-events.ts';
import type { CertifiedRound, CertifiedSession, CertifiedSummary } from './events.ts';
import { keepRound } from './keep-round.ts';
import type { DriverOptions, HeardRound, RunMember } from './round.ts';

/** From so many void rounds in a row on somebody should know. */
const VOIDS_TO_TELL = 3;
/** How long relays may take to answer for what is published after the last round. */
const LAST_MS = 10_000;

export interface Circumstances {
  readonly startedMs: number;
  readonly secondsWaiting: number;
  /** It was over before this worker looked: nobody needs its loss. */
  readonly isOver: boolean;
  /** What it dropped on the way. */
  readonly refused: readonly Rejection[];
}

/** The state after a decision: model and ledger of the outcome, and everything learned that it did not take. */
export async function applyDecision(
  played: CertifiedState,
  start: ReadyRound,
  decision: Decision,
  timing: Circumstances,
  member: RunMember,
  session: CertifiedSession,
): Promise<RoundResult<CertifiedState>> {
  const { next, outcome } = decision;
  const { plan } = session;
  const { wire, clock, report } = session.ports;
  const { sent, unpacked: _, ...rest } = played;
  const accepted = acceptedWorkers(start, decision);
  const sliceRoots = localSliceRoots(next);
  const summary: CertifiedSummary = {
    index: outcome.round,
    base: outcome.base,
    digest: next.modelRoot,
    ...(sliceRoots && { outer: sliceRoots }),
    accepted,
    refused: timing.refused.map(({ reason, worker }) => ({ reason, ...(worker && { worker }) })),
    completionReason: 'certified',
    trainingLoss: sent?.trainingLoss ?? Number.NaN,
    ...(timing.isOver ? {} : await evaluate(next.params.values, outcome.round, session)),
    ...bytesOf(outcome, member.evidence),
    residualShare: sent?.residualShare ?? Number.NaN,
    secondsTraining: sent?.secondsTraining ?? 0,
    secondsWaiting: timing.secondsWaiting,
    seconds: (clock.now() - timing.startedMs) / 1000,
    certified: describe(start, decision, member.evidence),
  };
  const recorded = withRound<CertifiedSummary>(rest, summary);
  const state: CertifiedState = {
    ...rest,
    round: next.round,
    params: next.params,
    momentum: next.momentum,
    ...carryOver(
      played,
      start.state,
      outcome,
      { wire, evidence: member.evidence, rule: plan.residual },
      next.taken,
    ),
    unpacked: undefined,
    cohort: accepted,
    ...recorded,
    lastSent: sent ? idOf(sent) : rest.lastSent,
    sent: undefined,
    head: chainHeadOf(next, votesOf(start, decision, member), played.head.left),
  };
  const completed = async () => {
    for (const feature of member.features) feature.decided?.(start, outcome, next.taken);
    member.attendance.noteLeaves(outcome);
    const isLast = outcome.round + 1 >= plan.rounds;
    if (isLast) member.control.hurry();
    const kept = keepRound(start, decision, member, { me: wire.me, isOver: timing.isOver });
    // after the last round connections close
    if (isLast) await within(kept, LAST_MS, clock, session.signal);
    report({ type: 'round', ...summary });
    const count = voidsInARow(recorded.rounds);
    if (count >= VOIDS_TO_TELL) report({ type: 'voids', round: outcome.round, count });
    return state;
  };
  return { state, completed };
}

/** The quorum that decided, as the next outcome lists it. */
function votesOf(
  { state }: ReadyRound,
  { certificate }: Decision,
  { evidence }: RunMember,
): ListedVotes {
  const messages = certificate.commits.map((id) => evidence.message(id)!);
  return listVotes(state.ledger, certificate, messages.filter(isCommit));
}

function voidsInARow(rounds: readonly CertifiedSummary[]): number {
  const last = rounds.findLastIndex(({ certified }) => certified?.result !== 'void');
  return rounds.length - 1 - last;
}

/** Whose contributions are in the model now, ascending. */
const acceptedWorkers = (
  { electorate }: ReadyRound,
  { outcome }: Decision,
): readonly WorkerId[] => [
  ...new Set(outcome.accepted.map(({ index }) => electorate.roster[index]!)),
];

/** The largest payload and event of what an outcome lists. */
function bytesOf(
  { accepted }: Outcome,
  evidence: Evidence,
): Pick<RoundSummary, 'payloadBytes' | 'eventBytes'> {
  const manifests = accepted.flatMap(({ manifest: id }) => {
    const message = evidence.message(id);
    return message?.type === 'manifest' ? [message.manifest] : [];
  });
  return {
    payloadBytes: Math.max(0, ...manifests.map(({ bytes }) => bytes)),
    eventBytes: Math.max(0, ...manifests.map(({ eventBytes }) => eventBytes)),
  };
}

/** Who signed, who was refused, who came and went. */
function describe(
  { electorate }: ReadyRound,
  { outcome, certificate, next }: Decision,
  evidence: Evidence,
): CertifiedRound {
  const { roster, committee } = electorate;
  const { attempt, view, commits } = certificate;
  const votes = commits.map((id) => evidence.message(id)!).filter(isCommit);
  const keyOf = (id: EventId) => evidence.message(id)?.key;
  const culpritOf = (id: EventId) => {
    const message = evidence.message(id);
    return message?.type === 'fault' ? message.culprit : undefined;
  };
  return {
    result: outcome.result,
    attempt,
    view,
    root: next.modelRoot,
    of: committee.size,
    signers: sortedKeys(commits.map(keyOf)),
    rejected: outcome.rejected.map(({ index, reason }) => ({ worker: roster[index]!, reason })),
    faults: sortedKeys(outcome.faults.map(culpritOf)),
    joined: keysIn(outcome.joins).filter((key) => !roster.includes(key)),
    left: keysIn(outcome.leaves),
    late: outcome.accepted.flatMap(({ index, late }) => (late ? [roster[index]!] : [])),
    ...Object.assign(
      {},
      ...featuresOf(next.spec).map((each) => each.describe?.(next, votes, roster)),
    ),
    ...takenIn(outcome, next, roster),
  };
}

/** Whom the rule left out, and the rate it found. */
function takenIn(
  { accepted }: Outcome,
  { taken, spec: { aggregation } }: Decision['next'],
  roster: readonly WorkerId[],
): Pick<CertifiedRound, 'unused' | 'rate'> {
  if (taken === undefined) return {};
  const left = accepted.filter(({ manifest }) => taken.unused.has(manifest));
  return {
    ...(left.length > 0 && { unused: left.map(({ index }) => roster[index]!) }),
    ...(aggregation.leastRatePermille < 1000 && { rate: taken.rate }),
  };
}

const keysIn = (listed: readonly { readonly key: WorkerId }[]): readonly WorkerId[] =>
  sortedKeys(listed.map(({ key }) => key));

const sortedKeys = (keys: readonly (WorkerId | undefined)[]): readonly WorkerId[] =>
  keys.filter((key) => key !== undefined).sort();

/** Asks for copies of a round and of the one before, since authors may have deleted them; at most every 10 s. */
export interface ArchivedVotesFetcher {
  readonly isAsking: boolean;
  ask(): void;
}

/** Between two askings. */
const QUERY_INTERVAL_MS = 10_000;

/** Those who sat in a round: whoever keeps it is among them, but after a recovery. */
function seatedIn({ state, context, ports }: DriverOptions, round: number): readonly WorkerId[] {
  const { spec, run, before } = state;
  if (round === state.round || before === null) return context.committee.members;
  const stakes = settled(stakesOf(before.ledger, ports.evidence));
  return electorateOf({ spec, run, ...before }, stakes).committee.members;
}

/** A question names each whose copies it wants, to every relay: of a larger roster so many at a time, in turn. */
const MAX_QUERIED_KEYS = 256;

/** Asks first for what those made who sat, then for what anybody of the roster did. */
export function createArchivedVotesFetcher(
  options: DriverOptions,
  hearing: HeardRound,
  onAnswered: () => void,
): ArchivedVotesFetcher {
  const { context, ports } = options;
  const { round, roster } = context;
  const { clock, control } = ports;
  const rounds = round > 0 ? [round - 1, round] : [round];
  let askCount = 0;
  let isAsking = false;
  let queriedMs = Number.NEGATIVE_INFINITY;
  return {
    get isAsking() {
      return isAsking;
    },
    ask() {
      const nowMs = clock.now();
      if (isAsking || nowMs - queriedMs < QUERY_INTERVAL_MS) return;
      queriedMs = nowMs;
      isAsking = true;
      const from =
        MAX_QUERIED_KEYS * ((askCount - 1) % Math.ceil(roster.length / MAX_QUERIED_KEYS));
      const by = (each: number) =>
        askCount === 0 ? seatedIn(options, each) : roster.slice(from, from + MAX_QUERIED_KEYS);
      const asking = rounds.map((each) => control.fetchArchivedVotes(each, by(each), hearing));
      askCount++;
      void Promise.all(asking).finally(() => {
        isAsking = false;
        onAnswered();
      });
    },
  };
}
