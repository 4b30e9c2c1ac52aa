/**
 * A round that a committee certifies: train and publish, and beside it decide what counts. Every worker ends it in the state that
 * the certified outcome leads to, with or without a seat; whoever is behind follows without training. docs/rounds.md has the rules.
 */
import { within } from '../network/transport/deadline.ts';
import type { Rejection } from '../run/contribution.ts';
import type { WorkerId } from '../run/ids.ts';
import type { RoundSummary } from '../worker/events.ts';
import type { Session } from '../worker/session.ts';
import { evaluate, idOf } from '../worker/settle.ts';
import type { WorkerState } from '../worker/state.ts';
import { publish, type Trained, work } from '../worker/work.ts';
import type { Better } from './branches.ts';
import { carryOver } from './carry-over.ts';
import type { Certified } from './chain-state.ts';
import { contextOf } from './context.ts';
import { openDeciding } from './deciding.ts';
import type { Deciding, Decision } from './decision.ts';
import type { Member, Start } from './member.ts';
import { termsOf } from './rows.ts';
import { certifiedOf, type Standing, standingOf } from './standing.ts';
import { sharesOf } from './submissions.ts';
import { bytesOf, describe } from './summary.ts';
import { switchTo } from './switching.ts';

/** A worker that stands somewhere in a certified run. */
export type Placed = WorkerState & { readonly standing: Standing };

/** How long relays may take to say what they have before this worker trains without knowing. */
const LOOK_MS = 5000;
/** From so many void rounds in a row on somebody should know. */
const VOIDS_TO_TELL = 3;

/** Plays one round; saves and tells how it ended. */
export async function playCertified(
  before: Placed,
  member: Member,
  session: Session,
): Promise<WorkerState> {
  const { clock, wire, store, report } = session.ports;
  const startedMs = clock.now();
  const start = await member.ready(certifiedOf(member.spec, before.standing, before));
  const deciding = await openRound(start, before, member, session);
  member.branches.begin(start.state);
  const isOver = member.attendance.isBehind && (await isOverAlready(deciding, session));
  const isMember = start.electorate.roster.includes(wire.me);
  const isAllowed = isMember && !hasLeft(before, start.state);
  const isPlaying = isAllowed && !isOver && !member.attendance.isResting;
  if (isAllowed && !isOver && !isPlaying) member.tell.resting(start.state.round);
  const trained = isPlaying ? await train(before, start, session) : undefined;
  const isLate = trained !== undefined && deciding.isCertified;
  if (trained && (!isLate || isDeferring(member)))
    await contribute(trained, deciding, member, session);
  const waitedMs = clock.now();
  const end = await Promise.race([member.branches.better, deciding.decided]);
  if ('path' in end) return goOver(end, trained ?? before, before.standing, member, session);
  const decision = end;
  const secondsWaiting = (clock.now() - waitedMs) / 1000;
  member.attendance.note({ isOver, isLate }, decision.outcome);
  const next = await settle(
    trained ?? before,
    start,
    decision,
    { startedMs, secondsWaiting, isOver, refused: deciding.refused },
    member,
    session,
  );
  await store.save(next);
  member.noteLeaves(decision.outcome);
  member.checkpoint(start, decision);
  report({ type: 'round', ...next.rounds.at(-1)! });
  const count = voidsInARow(next.rounds);
  if (count >= VOIDS_TO_TELL) report({ type: 'voids', round: start.state.round, count });
  return next;
}

/** How many of the last rounds were void, one after the other. */
function voidsInARow(rounds: readonly RoundSummary[]): number {
  const last = rounds.findLastIndex(({ certified }) => certified?.result !== 'void');
  return rounds.length - 1 - last;
}

/** Starts listening and voting; what was signed in this round before a restart is taken up again. */
async function openRound(
  { state, electorate }: Start,
  before: Placed,
  member: Member,
  session: Session,
): Promise<Deciding> {
  const { wire } = session.ports;
  const { me } = wire;
  const own = { me, since: state.time * 1000, delays: member.delays };
  const context = contextOf(state, electorate, own);
  const memory = await member.memoryOf(state);
  const { entry } = memory;
  const voteFrom = hasLeft(before, state) ? Number.MAX_SAFE_INTEGER : memory.voteFrom;
  const { pending, standing } = before;
  const { votes } = standing;
  const deciding = openDeciding({ state, context, member, session, entry, voteFrom, votes });
  member.follow(deciding);
  member.announce(state);
  if (pending !== undefined) {
    deciding.enter(pending);
    // a restart does not know whether it went out
    if (!member.hasPublished(idOf(pending))) wire.send(pending);
  }
  return deciding;
}

/** Whether it went over to another branch in this round once, and may have signed something in it. */
const hasLeft = ({ standing }: Placed, { parent }: Certified): boolean =>
  standing.left.includes(parent);

/** Leaves the round as it is for the end of a better branch. */
async function goOver(
  better: Better,
  played: WorkerState,
  standing: Standing,
  member: Member,
  { ports, plan }: Session,
): Promise<WorkerState> {
  const { wire, store } = ports;
  const next = switchTo(better, played, standing, { wire, rule: plan.residual });
  member.leaveBranch();
  await store.save(next);
  const { round, parent: ours } = standing;
  const { fork, state } = better;
  const told = { round: state.round, fork, depth: round - fork, ours, theirs: state.parent };
  member.tell.switched(told);
  return next;
}

/** The state to go on from when a run that seemed over went another way; undefined where it did not. */
export async function afterTheEnd(
  state: WorkerState,
  session: Session,
): Promise<WorkerState | undefined> {
  const { member } = session;
  const { standing } = state;
  if (member === undefined || standing === undefined) return undefined;
  const better = await member.branches.atTheEnd(certifiedOf(member.spec, standing, state));
  return better && goOver(better, state, standing, member, session);
}

/** Whether the relays have a certificate of this round. */
async function isOverAlready(deciding: Deciding, { ports, signal }: Session): Promise<boolean> {
  await within(deciding.looked, LOOK_MS, ports.clock, signal);
  return deciding.isCertified;
}

/** Whether what an outcome did not list may still be listed by the next one. */
const isDeferring = ({ spec }: Member): boolean => spec.late === 'defer';

function train(before: Placed, { state, electorate }: Start, session: Session): Promise<Trained> {
  const { modelRoot: base, parent } = state;
  const shares = sharesOf(termsOf(state, false)!);
  return work(before, { base, parent, roster: electorate.live, shares }, session);
}

async function contribute(
  trained: Trained,
  deciding: Deciding,
  member: Member,
  session: Session,
): Promise<void> {
  deciding.enter(trained.sent);
  await publish(trained, session);
  member.notePublished(idOf(trained.sent));
}

interface Circumstances {
  readonly startedMs: number;
  readonly secondsWaiting: number;
  /** It was over before this worker looked: nobody needs its loss. */
  readonly isOver: boolean;
  /** What it dropped on the way. */
  readonly refused: readonly Rejection[];
}

/** The state after a decision: model and ledger of the outcome, and everything learned that it did not take. */
async function settle(
  played: WorkerState,
  start: Start,
  decision: Decision,
  timing: Circumstances,
  member: Member,
  session: Session,
): Promise<WorkerState> {
  const { next, outcome, certificate } = decision;
  const { plan } = session;
  const { wire, clock } = session.ports;
  const { sent, learned: _, ...rest } = played;
  const accepted = acceptedWorkers(start, decision);
  const mine = sent && idOf(sent);
  const summary: RoundSummary = {
    index: outcome.round,
    base: outcome.base,
    digest: next.modelRoot,
    accepted,
    refused: timing.refused.map(({ reason, worker }) => ({ reason, ...(worker && { worker }) })),
    completionReason: 'certified',
    trainingLoss: sent?.trainingLoss ?? Number.NaN,
    ...(timing.isOver ? {} : await evaluate(next.params.values, outcome.round, session)),
    ...bytesOf(outcome, member.pool),
    residualShare: sent?.residualShare ?? Number.NaN,
    secondsTraining: sent?.secondsTraining ?? 0,
    secondsWaiting: timing.secondsWaiting,
    seconds: (clock.now() - timing.startedMs) / 1000,
    certified: describe(start, decision, member.pool),
  };
  return {
    ...rest,
    round: next.round,
    params: next.params,
    momentum: next.momentum,
    ...carryOver(played, start.state, outcome, { wire, rule: plan.residual }),
    learned: undefined,
    cohort: accepted,
    rounds: [...rest.rounds, summary],
    lastSent: mine ?? rest.lastSent,
    sent: undefined,
    standing: standingOf(next, certificate.commits, played.standing?.left),
  };
}

/** Whose contributions are in the model now, ascending. */
const acceptedWorkers = ({ electorate }: Start, { outcome }: Decision): readonly WorkerId[] => [
  ...new Set(outcome.accepted.map(({ index }) => electorate.roster[index]!)),
];
