/**
 * Certified rounds as a strategy of the worker loop: trains and publishes while a committee decides what counts. Every
 * worker ends in the certified state; one that is behind follows without training (docs/rounds.md).
 */
import { firstOf, within } from '../base/async.ts';
import { drawnOf } from '../consensus/committee/draw.ts';
import { hasQuorum } from '../consensus/committee/quorum.ts';
import type { RoundContext } from '../consensus/round/round-state.ts';
import { type Beginning, beginLate, comeBack, graceOf } from '../consensus/round/timing.ts';
import type { WorkerId } from '../run/ids.ts';
import { deletedOf } from '../run/ledger.ts';
import { publish } from '../worker/publish.ts';
import { idOf } from '../worker/state.ts';
import type { OpenRound, RoundResult, RoundStart, RoundStrategy } from '../worker/strategy.ts';
import {
  type Certified,
  type Chain,
  certifiedOf,
  type Decision,
  type Electorate,
  membershipOf,
  type ReadyRound,
} from './decisions/chain.ts';
import {
  assignmentOf,
  roundParametersOf,
  unwrapRuling,
  weighingOf,
} from './decisions/contributions.ts';
import { actingRound, roundWith, seatsFounders } from './decisions/founders.ts';
import { trainedIn } from './decisions/groups.ts';
import { localSliceRoots } from './decisions/slices.ts';
import type { Better } from './history/branches.ts';
import { applyDecision } from './rounds/apply-decision.ts';
import type { CertifiedSession } from './rounds/events.ts';
import { FirstRound, type OpenDriven } from './rounds/first-round.ts';
import { sentBefore, signedIn, votesOfBefore } from './rounds/journal.ts';
import type { DrivenRound, RunMember } from './rounds/round.ts';
import { driveRound } from './rounds/round-driver.ts';
import { type CertifiedState, switchTo } from './state.ts';

/** Time for relays to send their stored events before the worker trains without them. */
const RELAY_WAIT_MS = 5000;

/** Time for backfill and features to finish after the last round. */
const FINISH_WAIT_MS = 60_000;

type Result = RoundResult<CertifiedState>;

export function createCertifiedStrategy(
  member: RunMember,
  session: CertifiedSession,
): RoundStrategy<CertifiedState> {
  const { plan, ports } = session;
  const strategy: RoundStrategy<CertifiedState> = {
    digestOf: ({ head }) => head.modelRoot,
    sliceDigestsOf: ({ head, params }) => localSliceRoots({ ...head, params }),
    membersIn: ({ head }) => head.ledger.members.length,
    async prepare(state) {
      if (state.round < plan.rounds && !member.attendance.hasLeft) return { state, isOver: false };
      // the run may have continued on another branch
      const end = certifiedOf(member.spec, state.head, state);
      const better = await member.branches.atTheEnd(end);
      if (!better && member.attendance.isReturning) await republishLost(end, member, session);
      if (!better) await endFeatures(state, member, session);
      if (!better) return { state, isOver: true };
      const result = await switchBranch(better, state, member, session);
      await ports.store.save(result.state);
      return strategy.prepare(await result.completed());
    },
    open: (state) => openCertified(state, member, session),
  };
  return strategy;
}

/** Republishes events that relays have lost, for a worker that returns after the last round. */
async function republishLost(
  end: Certified,
  { backfill }: RunMember,
  { ports, signal }: CertifiedSession,
) {
  const { clock, wire } = ports;
  await within(backfill.republishMissing(end, wire.me), FINISH_WAIT_MS, clock, signal);
}

/** Lets features finish after the last round. */
async function endFeatures(
  state: CertifiedState,
  { features }: RunMember,
  { ports, signal }: CertifiedSession,
) {
  const endings = features.flatMap((feature) => feature.ended?.(state) ?? []);
  await within(Promise.all(endings), FINISH_WAIT_MS, ports.clock, signal);
}

async function openCertified(
  before: CertifiedState,
  member: RunMember,
  session: CertifiedSession,
): Promise<OpenRound<CertifiedState>> {
  const { clock, wire } = session.ports;
  const startedMs = clock.now();
  const certified = certifiedOf(member.spec, before.head, before);
  member.attendance.announce(certified);
  const start = actingRound((await member.inputs.ready(certified)).state, member.evidence);
  for (const feature of member.features) feature.begin?.(start, before);
  member.membershipListener.begin(start, wire.me);
  const driven = await drive(start, before, member, session);
  const { attendance, branches } = member;
  branches.begin(start.state);
  const isOver = attendance.isBehind && (await isOverAlready(driven, session));
  const isAllowed = start.electorate.roster.includes(wire.me) && !hasLeft(before, start.state);
  const { isSittingOut } = member.keyWatch;
  const drawn = drawnOf(membershipOf(member.spec, start.state.run), start.state.ledger);
  const isDrawn = drawn?.has(wire.me) !== false;
  const onlyRest = isOver && (await mayStillCount(driven, member, session));
  const isPlaying =
    isAllowed && isDrawn && (!isOver || onlyRest) && !attendance.isResting && !isSittingOut;
  if (isAllowed && isDrawn && !isOver && !isPlaying) tellAbsence(member, start.state.round);
  if (!isOver && isDrawn) tellPart(start, member, wire.me);
  let isLate = false;
  const tellTraining = (isTraining: boolean) => {
    for (const feature of member.features) feature.training?.(isTraining);
  };
  tellTraining(isPlaying);
  return {
    start: isPlaying ? { ...roundStart(start, member, wire.me), onlyRest } : undefined,
    async publish(sealed) {
      isLate = driven.isCertified;
      tellTraining(false);
      // under `defer` the next outcome may still list it
      if (isLate && member.spec.late !== 'defer') return;
      driven.enter(sealed.sent);
      await publish(sealed, session, { isWanted: () => !driven.isCertified });
      attendance.published = idOf(sealed.sent);
    },
    async finish(played) {
      const waitedMs = clock.now();
      const { conflict } = member.keyWatch;
      const end = await firstOf<Better | Decision>([branches.better, driven.decided, conflict]);
      if ('path' in end) return switchBranch(end, played, member, session);
      const secondsWaiting = (clock.now() - waitedMs) / 1000;
      attendance.note({ isOver, isLate, hasCommitted: driven.hasCommitted }, end.outcome);
      if (!isOver) member.keyWatch.ended();
      const { refused } = driven;
      const circumstances = { startedMs, secondsWaiting, isOver, refused };
      const decided = roundWith(start.state, end.outcome.joins, member.evidence);
      return applyDecision(played, decided, end, circumstances, member, session);
    },
    // the round answers others until a later round replaces it
    close: () => undefined,
  };
}

const tellAbsence = ({ keyWatch, reporter }: RunMember, round: number): void =>
  keyWatch.isSittingOut ? reporter.sittingOut(round) : reporter.resting(round);

/** Reports why a training worker sends nothing. */
function tellPart({ state, electorate }: ReadyRound, member: RunMember, me: WorkerId): void {
  const { reporter, evidence, attendance } = member;
  if (!electorate.roster.includes(me)) {
    if (attendance.hasLeft || state.ledger.faulted.includes(me)) return;
    reporter.unlisted(attendance.siblingIn(state.ledger));
    return;
  }
  const roundParameters = unwrapRuling(roundParametersOf(state, evidence));
  if (electorate.roster.length === 1) reporter.alone();
  const { moving, chunksOf } = assignmentOf(roundParameters);
  const hasStake = weighingOf(roundParameters.spec, roundParameters.stakes, [me]).length > 0;
  if (!hasStake || (moving.length > 0 && chunksOf(me).length === 0)) reporter.partless(hasStake);
}

function roundStart(
  { state, electorate }: ReadyRound,
  { evidence, features }: RunMember,
  me: WorkerId,
): RoundStart {
  const committing = features.find((feature) => feature.commit);
  const assignment = assignmentOf(unwrapRuling(roundParametersOf(state, evidence)));
  return {
    base: state.modelRoot,
    sliceDigests: localSliceRoots(state),
    parent: state.parent,
    roster: electorate.eligible,
    assignment,
    trains: trainedIn(state.spec, state.round, assignment.chunksOf(me)),
    without: deletedOf(state.ledger),
    keepsDelta: true,
    ...(committing && { commit: (made) => committing.commit!(made) }),
  };
}

/** Opens the round for listening and voting, resuming what was signed before a restart. */
async function drive(
  { state, electorate: elected }: ReadyRound,
  before: CertifiedState,
  member: RunMember,
  session: CertifiedSession,
): Promise<DrivenRound> {
  const { wire, clock } = session.ports;
  const { me } = wire;
  const { isReturning, isBehind } = member.attendance;
  const electorate = member.attendance.withReturned(elected, state.round, wire.heartbeats);
  const memory = await member.memory.of(state, isReturning);
  // arrival times are restored from disk too
  const local = { me, since: state.time * 1000, delays: member.memory.delays.recent };
  const context = contextOf(state, electorate, local);
  const sent = sentBefore(before);
  for (const id of [...sent, ...signedIn(memory.entry)]) member.keyWatch.signed(id);
  const hasMemory = !memory.isEmpty || sent.length > 0;
  const stored = member.evidence.messages();
  member.keyWatch.begin(state, { isReturning, hasMemory, stored });
  const { entry, voteFrom } = votesOfBefore(memory, {
    isSittingOut: member.keyWatch.isSittingOut,
    isGone: hasLeft(before, state),
  });
  const { sent: sealed, pending, head } = before;
  const { votes } = head;
  const beginning = beginningOf(before, context, member, clock.now());
  const open: OpenDriven = (opened, from, mayCount) =>
    driveRound({
      state: opened.state,
      context: contextOf(opened.state, opened.electorate, local),
      entry: from,
      beginning,
      voteFrom,
      votes,
      isBehind,
      ports: member,
      mayCount,
    });
  const ready = { state, electorate };
  const driven = seatsFounders(state)
    ? new FirstRound(ready, entry, member, open)
    : open(ready, entry);
  member.rounds.follow(driven);
  // relays may have lost what an outcome lists
  if (sealed) driven.enter(sealed);
  if (pending !== undefined) {
    driven.enter(pending);
    // after a restart it is unknown whether it was sent
    if (member.attendance.published !== idOf(pending)) wire.send(pending);
  }
  return driven;
}

/** Returns when the round began for this worker: now if it finished the previous one together with the others. */
function beginningOf(
  { head: { votes } }: CertifiedState,
  context: RoundContext,
  { attendance }: RunMember,
  nowMs: number,
): Beginning {
  const signed = votes?.rows.map(({ createdAt }) => 1000 * (createdAt + 1)) ?? [];
  const decided = signed.sort((a, b) => a - b)[signed.length >> 1] ?? 0;
  if (attendance.isReturning) return comeBack(context, decided, nowMs);
  return attendance.isThere ? { begun: nowMs, back: null } : beginLate(context, decided, nowMs);
}

/** Reports whether it left this branch once and may have signed something in this round. */
const hasLeft = ({ head }: CertifiedState, { parent }: Certified): boolean =>
  head.left.includes(parent);

async function switchBranch(
  better: Better,
  played: CertifiedState,
  member: RunMember,
  { ports: { wire }, plan }: CertifiedSession,
): Promise<Result> {
  const { evidence, inputs } = member;
  for (const { finished } of played.contributed ?? []) {
    await inputs.stakes(finished.ledger, finished.round);
  }
  const state = switchTo(better, played, { wire, evidence, rule: plan.residual });
  const { rounds, attendance, branches } = member;
  rounds.close();
  attendance.isBehind = true;
  branches.taken();
  const { round, parent: ours } = played.head;
  const { fork } = better;
  const { round: next, parent: theirs } = better.state;
  const completed = async () => {
    member.reporter.switched({ round: next, fork, depth: round - fork, ours, theirs });
    return state;
  };
  return { state, completed };
}

/** Reports whether relays have a certificate of this round. */
async function isOverAlready(
  driven: DrivenRound,
  { ports, signal }: CertifiedSession,
): Promise<boolean> {
  await within(driven.caughtUp, RELAY_WAIT_MS, ports.clock, signal);
  return driven.isCertified;
}

/**
 * Reports whether the rest of an inner phase of this decided round can end before the next outcome, which may still
 * list it.
 */
async function mayStillCount(
  { decided }: DrivenRound,
  { spec: { late, timing }, memory: { delays } }: RunMember,
  { ports, signal }: CertifiedSession,
): Promise<boolean> {
  if (late !== 'defer') return false;
  const decision = await within(decided, RELAY_WAIT_MS, ports.clock, signal);
  if (decision === undefined) return false;
  return ports.clock.now() - 1000 * decision.next.time < graceOf(delays.recent, timing);
}

/** The worker-specific part of a round context. */
export type LocalContext = Pick<RoundContext, 'me' | 'since' | 'delays'>;

/** Builds the context of the round machine from certified state and this worker's own clock data. */
export function contextOf(
  { spec, run, round, parent }: Chain,
  electorate: Electorate,
  local: LocalContext,
): RoundContext {
  const voidView = Math.max(1, Math.min(spec.timing.voidView, electorate.committee.size));
  const timing = { ...spec.timing, voidView };
  return {
    ...local,
    ...electorate,
    live: electorate.awaited,
    run,
    round,
    parent,
    timing,
    hasQuorum,
  };
}
