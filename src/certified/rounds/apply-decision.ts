/**
 * Applies a decided round: computes the worker's next state and the round summary. Also fetches archived votes of a
 * round from its members.
 */
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

/** Consecutive void rounds that trigger an alert. */
const VOIDS_TO_TELL = 3;
/** Time for relays to accept what is published after the last round. */
const LAST_MS = 10_000;

export interface Circumstances {
  readonly startedMs: number;
  readonly secondsWaiting: number;
  /** The round was decided before this worker saw it, so its loss is not evaluated. */
  readonly isOver: boolean;
  /** Messages refused during the round. */
  readonly refused: readonly Rejection[];
}

/**
 * Returns the state after a decision: the model and ledger of the outcome, and the worker's learning that it did not
 * include.
 */
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
    // connections close after the last round
    if (isLast) await within(kept, LAST_MS, clock, session.signal);
    report({ type: 'round', ...summary });
    const count = voidsInARow(recorded.rounds);
    if (count >= VOIDS_TO_TELL) report({ type: 'voids', round: outcome.round, count });
    return state;
  };
  return { state, completed };
}

/** Returns the deciding commits in the form in which the next outcome lists them. */
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

/** Returns the workers whose contributions are in the model now, ascending. */
const acceptedWorkers = ({ electorate }: ReadyRound, { outcome }: Decision): readonly WorkerId[] =>
  sortedKeys([...new Set(outcome.accepted.map(({ index }) => electorate.roster[index]))]);

/** Returns the largest payload and event among the listed contributions, in bytes. */
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

/** Summarises the certificate: signers, rejections, roster changes and feature data. */
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

/** Returns the workers that the aggregation rule left out, and the learning-rate factor it computed. */
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

/**
 * Fetches archived votes of the current and the previous round, in case authors deleted the originals; at most every 10
 * s.
 */
export interface ArchivedVotesFetcher {
  readonly isAsking: boolean;
  ask(): void;
}

/** Minimum time between two queries. */
const QUERY_INTERVAL_MS = 10_000;

/** Returns the committee of a round, whose members archive it; after a recovery others may have archived it. */
function seatedIn({ state, context, ports }: DriverOptions, round: number): readonly WorkerId[] {
  const { spec, run, before } = state;
  if (round === state.round || before === null) return context.committee.members;
  const stakes = settled(stakesOf(before.ledger, ports.evidence));
  return electorateOf({ spec, run, ...before }, stakes).committee.members;
}

/** Maximum authors in one query, since every relay gets the whole list; larger rosters are queried in parts. */
const MAX_QUERIED_KEYS = 256;

/** Queries archives by the committee first, then by the whole roster. */
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
      const archived = rounds.map((each) => ({ round: each, by: by(each) }));
      askCount++;
      void control.fetchArchivedVotes(archived, hearing).finally(() => {
        isAsking = false;
        onAnswered();
      });
    },
  };
}
