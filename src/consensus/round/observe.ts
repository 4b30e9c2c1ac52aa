/** Observing: how long a member waits for manifests before it closes a round. Its own view only; no replay depends on it. */
import { graceOf } from './grace.ts';
import { change, type RoundContext, type RoundState, type Turn } from './round-state.ts';
import { viewLength, viewsOfOthers } from './views.ts';

export type Decision =
  | { readonly type: 'wait'; readonly remainingMs: number }
  /** `empty`: nothing came in time, so that a void outcome will do. */
  | { readonly type: 'close'; readonly empty: boolean };

/** Whether to go on waiting: until every live worker reported, but no longer than the grace. */
export function decideClosing(context: RoundContext, state: RoundState, now: number): Decision {
  const remainingMs = state.begun + graceOf(context.delays, context.timing) - now;
  const isComplete = context.live.every((key) => state.held.some(({ worker }) => worker === key));
  if (remainingMs > 0 && !isComplete) return { type: 'wait', remainingMs };
  return { type: 'close', empty: state.held.length === 0 };
}

/** Closes the round: view 0 begins. When more than K - k members are past it already, they are joined. */
export function close(turn: Turn): boolean {
  const { context, state, now } = turn;
  if (state.closed !== null || state.decided !== null) return false;
  const decision = decideClosing(context, state, now);
  const { size, quorum } = context.committee;
  const isFollowing = viewsOfOthers(turn)[size - quorum] !== undefined;
  if (decision.type === 'wait' && !isFollowing) return false;
  const { viewMs, recoveryMs } = context.timing;
  turn.effects.push({ type: 'closed', held: state.held });
  return change(turn, {
    closed: { at: now, empty: decision.type === 'close' && decision.empty },
    view: 0,
    viewEnds: now + viewLength(viewMs, 0),
    attemptEnds: recoveryMs === 0 ? Number.MAX_SAFE_INTEGER : now + recoveryMs,
  });
}
