/** View changes and recovery epochs: who proposes, when a member moves on, and what it does after a failed view. */
import type { EventId, WorkerId } from '../../run/ids.ts';
import { drawnFor, highestPrepared, isClaimProven, prepareVoters } from './quorums.ts';
import { type Activation, change, type RoundContext, sign, type ViewId } from './round-state.ts';
import { closingTime, listensUntil, viewAfter, viewLength, viewStart } from './timing.ts';

/** Returns the proposer of a view. */
export function proposerOf(context: RoundContext, { attempt, view }: ViewId): WorkerId | undefined {
  const ranked = attempt === 0 ? context.committee.members : context.proposers(attempt);
  return ranked[view % ranked.length];
}

/** Follows other members into a later view, or moves on at the end of the view, also after the machine was asleep. */
export function changeView(activation: Activation): boolean {
  const { state, now, context } = activation;
  if (state.closed === null || state.decided !== null) return false;
  const { viewMs } = context.timing;
  const seen = viewOfOthers(activation);
  if (seen > state.view) return enter(activation, seen, now + viewLength(viewMs, seen));
  const ends = endOfView(activation);
  if (now < ends) return false;
  abandonView(activation);
  const start = ends - viewStart(viewMs, state.view + 1);
  const view = viewAfter(viewMs, now - start);
  return enter(activation, view, start + viewStart(viewMs, view + 1));
}

/** A view without a proposal ends after 1 / SILENT_SHARE of its length. */
const SILENT_SHARE = 2;

/**
 * Returns when the view in progress ends. Without a proposal after half its length the proposer seems to be away, so it
 * ends early; but not in the last view before a void outcome is acceptable, nor before all members accept votes of the
 * next view.
 */
function endOfView({ context, state, now }: Activation): number {
  const { attempt, view, viewEnds, votes } = state;
  const { since, timing } = context;
  if (attempt > 0 || view + 1 >= timing.voidView || now >= viewEnds) return viewEnds;
  const isProposed = votes.some(
    (vote) => vote.type === 'proposal' && vote.attempt === attempt && vote.view === view,
  );
  if (isProposed) return viewEnds;
  const length = viewLength(timing.viewMs, view);
  const soon = viewEnds - length + Math.ceil(length / SILENT_SHARE);
  return Math.min(viewEnds, Math.max(soon, since + viewStart(timing.viewMs, view + 1)));
}

const enter = (activation: Activation, view: number, viewEnds: number): true =>
  change(activation, {
    view,
    viewEnds,
    asked: [],
    // acceptability depends on what has arrived by now, so it must be checked again
    checks: activation.state.checks.filter(({ valid, acceptable }) => !valid || acceptable),
  });

/** Returns the latest view of each other member, in descending order. */
export function viewsOfOthers({ context, state }: Activation): number[] {
  const latest = new Map<WorkerId, number>();
  for (const { key, attempt, view } of state.votes) {
    if (attempt !== state.attempt || key === context.me) continue;
    if (view > (latest.get(key) ?? -1)) latest.set(key, view);
  }
  return [...latest.values()].sort((a, b) => b - a);
}

/**
 * Returns the view to follow others into, else -1. More than K - k members cannot all be Byzantine, so they are
 * followed at once. In a late round one member is enough, or members behind a partition would stay ahead; `latestView`
 * limits how far a liar can lead.
 */
function viewOfOthers(activation: Activation): number {
  const { context, state } = activation;
  const { size, quorum } = context.committee;
  const isLate = state.attempt > 0 || state.view >= context.timing.voidView;
  return viewsOfOthers(activation)[isLate ? 0 : size - quorum] ?? -1;
}

/** Ends a failed view: reports silent members, re-sends this worker's lock and its proof, fetches missed messages. */
function abandonView(activation: Activation): void {
  const { state, context, effects } = activation;
  const { attempt, view, lock } = state;
  effects.push({ type: 'stalled', attempt, view, missing: missingIn(activation) });
  const mine = state.ballots.find((each) => each.key === context.me && each.attempt === attempt);
  const claim = mine?.prepared;
  const ids = new Set([
    ...(lock === null ? [] : [lock.proposal, ...lock.prepares]),
    ...(mine === undefined ? [] : [mine.id]),
    ...(claim ? [claim.proposal, ...claim.prepares] : []),
  ]);
  if (ids.size > 0) effects.push({ type: 'resend', ids: [...ids] });
  effects.push({ type: 'want', what: 'round' });
}

/** Returns the silent members: without a view-change vote if too few voted, else a silent proposer, else voters. */
function missingIn(activation: Activation): readonly WorkerId[] {
  const { context, state } = activation;
  const { attempt } = state;
  if (attempt > 0) {
    const heard = state.ballots.filter((each) => each.attempt === attempt).map(({ key }) => key);
    if (!context.isFloor(heard)) {
      return context.eligible.filter((key) => !heard.includes(key));
    }
  }
  const voters = prepareVoters(state, state);
  const proposer = proposerOf(context, state);
  if (proposer !== undefined && !voters.has(proposer)) return [proposer];
  const listed = Object.values(state.drawn).find((each) => each.attempt === attempt);
  const expected = drawnFor(context, attempt) ?? listed;
  return (expected?.members ?? context.eligible).filter((key) => !voters.has(key));
}

/** Returns when the machine next needs a tick; never in a decided round. */
export function nextWake(activation: Activation): number {
  const { state, context, now } = activation;
  const { closed, decided, attempt, view, viewEnds, attemptEnds } = state;
  if (decided !== null) return Number.MAX_SAFE_INTEGER;
  if (closed === null) {
    // others may be voting already: the member listens before it decides whether to follow them
    const listenedUntil = listensUntil(state, context);
    return now < listenedUntil ? listenedUntil : closingTime(state, context);
  }
  const half = viewEnds - viewLength(context.timing.viewMs, view) / 2;
  const moments = attempt > 0 ? [half, attemptEnds] : [attemptEnds];
  return Math.min(endOfView(activation), ...moments.filter((at) => at > now));
}

/** Enters the next recovery epoch at the end of this one, or follows others into a later one. */
export function joinEpoch(activation: Activation): boolean {
  const { context, state, now } = activation;
  const { me, run, round, parent, roster, timing } = context;
  if (state.closed === null || state.decided !== null || !roster.includes(me)) return false;
  const attempt = dueEpoch(activation);
  if (attempt <= state.attempt) return false;
  const highest = highestPrepared(activation, attempt - 1);
  const prepared = highest && {
    attempt: highest.attempt,
    view: highest.view,
    digest: highest.digest,
    proposal: highest.proposal,
    prepares: highest.prepares,
  };
  change(activation, {
    attempt,
    view: 0,
    composed: null,
    asked: [],
    viewEnds: now + viewLength(timing.viewMs, 0),
    // doubles like view lengths, so that a slow network gets enough time
    attemptEnds: now + viewLength(timing.recoveryMs, attempt),
  });
  return sign(activation, { type: 'ballot', run, round, attempt, parent, prepared });
}

/** Returns the recovery epoch to be in: the next one after a timeout, or the latest that others are in. */
function dueEpoch({ context, state, now }: Activation): number {
  if (context.timing.recoveryMs === 0) return 0;
  const ahead = state.ballots.filter(({ attempt }) => attempt > state.attempt);
  // together with this worker the others reach the recovery floor: no need to wait for the timeout
  const isLeft = ahead.length > 0 && context.isFloor([...ahead.map(({ key }) => key), context.me]);
  const current = state.ballots.filter(({ attempt }) => attempt === state.attempt);
  // an epoch below the floor never began and is not abandoned: returning members find the others waiting in it
  const hasBegun = state.attempt === 0 || context.isFloor(current.map(({ key }) => key));
  const next = now >= state.attemptEnds && hasBegun ? state.attempt + 1 : 0;
  const isFollowing = next > 0 || state.attempt > 0 || isLeft;
  return Math.max(next, ...(isFollowing ? ahead.map(({ attempt }) => attempt) : []));
}

/** Maximum number of view-change vote ids that fit into the event of a proposal. */
const MOST_VIEW_CHANGES = 768;

/**
 * Returns the view-change votes that a proposal lists: one per eligible key with a proven claim. Undefined until all
 * eligible keys have voted, or enough have and half the view is over.
 */
export function chosenViewChanges(activation: Activation): readonly EventId[] | undefined {
  const { context, now } = activation;
  const { attempt, view, viewEnds, ballots } = activation.state;
  const chosen = new Map<WorkerId, EventId>();
  const eligible = new Set(context.eligible);
  for (const vote of ballots) {
    if (vote.attempt !== attempt || !eligible.has(vote.key)) continue;
    if (!isClaimProven(activation, vote)) continue;
    const other = chosen.get(vote.key);
    if (other === undefined || vote.id < other) chosen.set(vote.key, vote.id);
  }
  const isEnough = (keys: readonly WorkerId[]) =>
    context.isFloor(keys) && context.covers(attempt, keys);
  if (!isEnough([...chosen.keys()])) return undefined;
  const isPatient = now < viewEnds - viewLength(context.timing.viewMs, view) / 2;
  if (isPatient && chosen.size < eligible.size) return undefined;
  const listed = [...chosen].sort(([, a], [, b]) => (a < b ? -1 : 1)).slice(0, MOST_VIEW_CHANGES);
  return isEnough(listed.map(([key]) => key)) ? listed.map(([, id]) => id) : undefined;
}
