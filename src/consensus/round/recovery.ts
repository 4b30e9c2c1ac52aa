/**
 * Recovery: when a round does not end, workers promise by ballot to leave its attempt, say what they know to be prepared, and
 * try again with a committee drawn from those who balloted. Off where the run says so.
 */
import type { EventId, WorkerId } from '../../run/ids.ts';
import { isClaimProven } from './justify.ts';
import { change, type RoundContext, sign, type Turn } from './round-state.ts';
import { highestPrepared } from './tally.ts';
import { viewLength } from './views.ts';

/** No honest worker is in a later attempt: each lasts `recoveryMs` or longer. */
export const latestAttempt = ({ since, timing }: RoundContext, now: number): number =>
  timing.recoveryMs === 0
    ? 0
    : 1 + Math.max(0, Math.floor((now + timing.skewMs - since) / timing.recoveryMs));

/** Leaves an attempt that took too long, or follows those who did. */
export function joinAttempt(turn: Turn): boolean {
  const { context, state, now } = turn;
  const { me, run, round, parent, roster, timing } = context;
  if (state.closed === null || state.decided !== null || !roster.includes(me)) return false;
  const attempt = dueAttempt(turn);
  if (attempt <= state.attempt) return false;
  const highest = highestPrepared(turn, attempt - 1);
  const prepared = highest && {
    ...{ attempt: highest.attempt, view: highest.view, digest: highest.digest },
    ...{ proposal: highest.proposal, prepares: highest.prepares },
  };
  change(turn, {
    ...{ attempt, view: 0, composed: null, asked: [] },
    viewEnds: now + viewLength(timing.viewMs, 0),
    // like views: a network that is slower than the run expects gets the time it needs
    attemptEnds: now + viewLength(timing.recoveryMs, attempt),
  });
  return sign(turn, { type: 'ballot', run, round, attempt, parent, prepared });
}

/** The attempt to be in: the next one when time is up, or the latest that others are in once recovery has begun. */
function dueAttempt({ context, state, now }: Turn): number {
  if (context.timing.recoveryMs === 0) return 0;
  const ahead = state.ballots.filter(({ attempt }) => attempt > state.attempt);
  // with this worker they are enough: waiting any longer would only cost its time
  const isLeft = ahead.length > 0 && context.isFloor([...ahead.map(({ key }) => key), context.me]);
  const here = state.ballots.filter(({ attempt }) => attempt === state.attempt);
  // an attempt that never began is not given up: whoever comes back finds the others waiting in it
  const hasBegun = state.attempt === 0 || context.isFloor(here.map(({ key }) => key));
  const next = now >= state.attemptEnds && hasBegun ? state.attempt + 1 : 0;
  const isFollowing = next > 0 || state.attempt > 0 || isLeft;
  return Math.max(next, ...(isFollowing ? ahead.map(({ attempt }) => attempt) : []));
}

/** As many ids as an event carries beside the rest of a proposal. */
const MOST_BALLOTS = 768;

/**
 * The ballots to list: one of every key whose claim holds, once all of the roster balloted, or the floor did and half the
 * view is over, so that nobody who is there is left out for being a moment late.
 */
export function choiceOfBallots(turn: Turn): readonly EventId[] | undefined {
  const { context, now } = turn;
  const { attempt, view, viewEnds, ballots } = turn.state;
  const chosen = new Map<WorkerId, EventId>();
  for (const ballot of ballots) {
    if (ballot.attempt !== attempt || !isClaimProven(turn, ballot)) continue;
    const other = chosen.get(ballot.key);
    if (other === undefined || ballot.id < other) chosen.set(ballot.key, ballot.id);
  }
  const keys = [...chosen.keys()];
  if (!context.isFloor(keys)) return undefined;
  const isPatient = now < viewEnds - viewLength(context.timing.viewMs, view) / 2;
  if (isPatient && keys.length < context.roster.length) return undefined;
  const listed = [...chosen].sort(([, a], [, b]) => (a < b ? -1 : 1)).slice(0, MOST_BALLOTS);
  return context.isFloor(listed.map(([key]) => key)) ? listed.map(([, id]) => id) : undefined;
}
