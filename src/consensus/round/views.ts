/** Views: how long each lasts, when a member moves on, and what it does when one failed. */
import type { WorkerId } from '../../run/ids.ts';
import { graceOf } from './grace.ts';
import { change, type RoundContext, type Turn, type ViewId } from './round-state.ts';
import { prepareVoters } from './tally.ts';

/** Views grow no longer than 2^3 times the first one. */
const MOST_DOUBLINGS = 3;

export const viewLength = (viewMs: number, view: number): number =>
  viewMs * (1 << Math.min(view, MOST_DOUBLINGS));

/** How long after view 0 a view begins. */
function viewStart(viewMs: number, view: number): number {
  const doubled = Math.min(view, MOST_DOUBLINGS);
  return viewMs * ((1 << doubled) - 1) + (view - doubled) * viewLength(viewMs, MOST_DOUBLINGS);
}

/** The view a clock is in so long after view 0 began. */
export function viewAfter(viewMs: number, elapsedMs: number): number {
  for (let view = 0; view < MOST_DOUBLINGS; view++) {
    if (elapsedMs < viewStart(viewMs, view + 1)) return view;
  }
  const beyond = elapsedMs - viewStart(viewMs, MOST_DOUBLINGS);
  return MOST_DOUBLINGS + Math.floor(beyond / viewLength(viewMs, MOST_DOUBLINGS));
}

/** No honest member is in a later view: the round began after the outcome before it was made. */
export const latestView = ({ since, timing }: RoundContext, now: number): number =>
  viewAfter(timing.viewMs, now + timing.skewMs - since);

/** Who proposes in a view. */
export function proposerOf(context: RoundContext, { attempt, view }: ViewId): WorkerId | undefined {
  const ranked = attempt === 0 ? context.committee.members : context.proposers(attempt);
  return ranked[view % ranked.length];
}

/** Moves to the view in which enough others are, or on when time is up. Time goes on while a machine is away. */
export function changeView(turn: Turn): boolean {
  const { state, now, context } = turn;
  if (state.closed === null || state.decided !== null) return false;
  const { viewMs } = context.timing;
  const seen = viewOfOthers(turn);
  if (seen > state.view) return enter(turn, seen, now + viewLength(viewMs, seen));
  if (now < state.viewEnds) return false;
  giveUp(turn);
  const start = state.viewEnds - viewStart(viewMs, state.view + 1);
  const view = viewAfter(viewMs, now - start);
  return enter(turn, view, start + viewStart(viewMs, view + 1));
}

const enter = (turn: Turn, view: number, viewEnds: number): true =>
  change(turn, {
    view,
    viewEnds,
    asked: [],
    // what is acceptable depends on what is here by now, so it is asked again
    checks: turn.state.checks.filter(({ valid, acceptable }) => !valid || acceptable),
  });

/** The latest view each other member was seen in, the latest first. */
export function viewsOfOthers({ context, state }: Turn): number[] {
  const latest = new Map<WorkerId, number>();
  for (const { key, attempt, view } of state.votes) {
    if (attempt !== state.attempt || key === context.me) continue;
    if (view > (latest.get(key) ?? -1)) latest.set(key, view);
  }
  return [...latest.values()].sort((a, b) => b - a);
}

/**
 * Where others are. More than K - k of them cannot all be hostile, so they are followed at once. When the round goes badly
 * anyhow, a single one is: else members that were alone for long would stay ahead of the rest for ever. How far a liar can
 * lead is bounded by the clock, see `latestView`.
 */
function viewOfOthers(turn: Turn): number {
  const { context, state } = turn;
  const { size, quorum } = context.committee;
  const isLate = state.attempt > 0 || state.view >= context.timing.voidView;
  return viewsOfOthers(turn)[isLate ? 0 : size - quorum] ?? -1;
}

/** A view failed: who was missing, what this worker is bound by for whoever proposes next, and a look at what was missed. */
function giveUp(turn: Turn): void {
  const { state, context, effects } = turn;
  const { attempt, view, lock } = state;
  effects.push({ type: 'stalled', attempt, view, missing: missingIn(turn) });
  const own = state.ballots.find((each) => each.key === context.me && each.attempt === attempt);
  const claim = own?.prepared;
  const ids = new Set([
    ...(lock === null ? [] : [lock.proposal, ...lock.prepares]),
    ...(own === undefined ? [] : [own.id]),
    ...(claim ? [claim.proposal, ...claim.prepares] : []),
  ]);
  if (ids.size > 0) effects.push({ type: 'resend', ids: [...ids] });
  effects.push({ type: 'want', what: 'round' });
}

/** Who is missed: ballots where an attempt cannot begin, else a silent proposer, else who did not follow it. */
function missingIn(turn: Turn): readonly WorkerId[] {
  const { context, state } = turn;
  const { attempt } = state;
  if (attempt > 0) {
    const balloted = state.ballots.filter((each) => each.attempt === attempt).map(({ key }) => key);
    if (!context.isFloor(balloted)) return context.roster.filter((key) => !balloted.includes(key));
  }
  const voters = prepareVoters(state, state);
  const proposer = proposerOf(context, state);
  if (proposer !== undefined && !voters.has(proposer)) return [proposer];
  const drawn = Object.values(state.drawn).find((each) => each.attempt === attempt);
  const expected = attempt === 0 ? context.committee : drawn;
  return (expected?.members ?? context.roster).filter((key) => !voters.has(key));
}

/** When the clock next matters; never, in a round that is decided. */
export function nextWake({ state, context, now }: Turn): number {
  const { closed, decided, begun, attempt, view, viewEnds, attemptEnds } = state;
  if (decided !== null) return Number.MAX_SAFE_INTEGER;
  if (closed === null) return begun + graceOf(context.delays, context.timing);
  const half = viewEnds - viewLength(context.timing.viewMs, view) / 2;
  const moments = attempt > 0 ? [half, attemptEnds] : [attemptEnds];
  return Math.min(viewEnds, ...moments.filter((at) => at > now));
}
