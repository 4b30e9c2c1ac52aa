/**
 * Recovery from a stalled round: workers sign a view-change vote (`ballot`) to leave the current recovery epoch (`attempt`), state
 * what they know to be prepared, and retry: with a committee of the voters where everybody sits, else with one drawn anew. A run
 * can switch it off (`recoveryMs: 0`).
 */
import type { EventId, WorkerId } from '../../run/ids.ts';
import { isClaimProven } from './justify.ts';
import { change, sign, type Turn } from './round-state.ts';
import { highestPrepared } from './tally.ts';
import { viewLength } from './timing.ts';

/** Enters the next recovery epoch when time is up, or follows others into theirs. */
export function joinEpoch(turn: Turn): boolean {
  const { context, state, now } = turn;
  const { me, run, round, parent, roster, timing } = context;
  if (state.closed === null || state.decided !== null || !roster.includes(me)) return false;
  const attempt = dueEpoch(turn);
  if (attempt <= state.attempt) return false;
  const highest = highestPrepared(turn, attempt - 1);
  const prepared = highest && {
    attempt: highest.attempt,
    view: highest.view,
    digest: highest.digest,
    proposal: highest.proposal,
    prepares: highest.prepares,
  };
  change(turn, {
    attempt,
    view: 0,
    composed: null,
    asked: [],
    viewEnds: now + viewLength(timing.viewMs, 0),
    // doubles like view lengths, so that a slow network gets enough time
    attemptEnds: now + viewLength(timing.recoveryMs, attempt),
  });
  return sign(turn, { type: 'ballot', run, round, attempt, parent, prepared });
}

/** The recovery epoch to be in: the next one when time is up, or the latest that others are in once recovery has begun. */
function dueEpoch({ context, state, now }: Turn): number {
  if (context.timing.recoveryMs === 0) return 0;
  const ahead = state.ballots.filter(({ attempt }) => attempt > state.attempt);
  // together with this worker the others reach the recovery floor: no need to wait for the timeout
  const isLeft = ahead.length > 0 && context.isFloor([...ahead.map(({ key }) => key), context.me]);
  const here = state.ballots.filter(({ attempt }) => attempt === state.attempt);
  // an epoch below the floor never began and is not abandoned: returning members find the others waiting in it
  const hasBegun = state.attempt === 0 || context.isFloor(here.map(({ key }) => key));
  const next = now >= state.attemptEnds && hasBegun ? state.attempt + 1 : 0;
  const isFollowing = next > 0 || state.attempt > 0 || isLeft;
  return Math.max(next, ...(isFollowing ? ahead.map(({ attempt }) => attempt) : []));
}

/** Ids that fit into the event of a proposal. */
const MOST_VIEW_CHANGES = 768;

/**
 * The view-change votes a proposal lists: one per eligible key whose claim is proven. Ready once all of them voted, or once the
 * list is enough and half of the view is over, so that slightly late members are still included.
 */
export function chosenViewChanges(turn: Turn): readonly EventId[] | undefined {
  const { context, now } = turn;
  const { attempt, view, viewEnds, ballots } = turn.state;
  const chosen = new Map<WorkerId, EventId>();
  const eligible = new Set(context.eligible);
  for (const vote of ballots) {
    if (vote.attempt !== attempt || !eligible.has(vote.key)) continue;
    if (!isClaimProven(turn, vote)) continue;
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
