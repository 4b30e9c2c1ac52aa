/**
 * Time limits of a certified round: grace for contributions, lengths of views and recovery epochs, and how far ahead an
 * honest clock can be.
 */
import type { WorkerId } from '../../run/ids.ts';
import type { RoundContext, RoundTiming } from './round-state.ts';

/** Number of doublings of the view length: views last at most 2^3 times as long as the first one. */
const MOST_DOUBLINGS = 3;

/** Returns the length of a view, or of any other period that doubles with each failure. */
export const viewLength = (viewMs: number, view: number): number =>
  viewMs * (1 << Math.min(view, MOST_DOUBLINGS));

/** Returns the time from the start of view 0 to the start of this view. */
export function viewStart(viewMs: number, view: number): number {
  const doubled = Math.min(view, MOST_DOUBLINGS);
  return viewMs * ((1 << doubled) - 1) + (view - doubled) * viewLength(viewMs, MOST_DOUBLINGS);
}

/** Returns the view in progress `elapsedMs` after view 0 began. */
export function viewAfter(viewMs: number, elapsedMs: number): number {
  for (let view = 0; view < MOST_DOUBLINGS; view++) {
    if (elapsedMs < viewStart(viewMs, view + 1)) return view;
  }
  const beyond = elapsedMs - viewStart(viewMs, MOST_DOUBLINGS);
  return MOST_DOUBLINGS + Math.floor(beyond / viewLength(viewMs, MOST_DOUBLINGS));
}

/** Returns the latest view an honest member can be in: no round begins before the outcome it follows. */
export const latestView = ({ since, timing }: RoundContext, now: number): number =>
  viewAfter(timing.viewMs, now + timing.skewMs - since);

/** Returns the latest recovery epoch an honest worker can be in: each lasts at least `recoveryMs`. */
export const latestEpoch = ({ since, timing }: RoundContext, now: number): number =>
  timing.recoveryMs === 0
    ? 0
    : 1 + Math.max(0, Math.floor((now + timing.skewMs - since) / timing.recoveryMs));

/** Number of arrivals from which on their own deviation is a good estimate. */
const ENOUGH_ARRIVALS = 8;
/**
 * Minimum deviation of arrivals as a share of their median: for a single arrival (as TCP's first round trip, RFC 6298),
 * and for `ENOUGH_ARRIVALS` or more.
 */
const FIRST_DEVIATION_SHARE = 1 / 2;
const MIN_DEVIATION_SHARE = 1 / 8;

/**
 * Returns how long to wait for contributions: the median of earlier arrivals plus `deadlineC` median absolute
 * deviations, within the run's bounds. The deviation has a floor, higher for few arrivals: with a deadline at the
 * median, the round would leave out one worker after another.
 */
export function graceOf(delays: readonly number[], timing: RoundTiming): number {
  const { graceMinMs, graceMaxMs, deadlineC } = timing;
  if (delays.length === 0) return graceMaxMs;
  const middle = median(delays);
  const lacking = Math.max(0, ENOUGH_ARRIVALS - delays.length) / (ENOUGH_ARRIVALS - 1);
  const deviationShare =
    MIN_DEVIATION_SHARE + (FIRST_DEVIATION_SHARE - MIN_DEVIATION_SHARE) * lacking;
  const deviation = Math.max(
    median(delays.map((delay) => Math.abs(delay - middle))),
    deviationShare * middle,
  );
  return Math.min(graceMaxMs, Math.max(graceMinMs, Math.ceil(middle + deadlineC * deviation)));
}

/** When a round began for a worker, in milliseconds. */
export interface Beginning {
  readonly begun: number;
  /** When the worker came back; null if it was not away, equal to `begun` if it begins the round anew. */
  readonly back: number | null;
}

/**
 * Returns the beginning of a round for a worker that comes back: the time of the last outcome, as for workers that were
 * not away. If the round is too old to count contributions, it begins anew.
 */
export function comeBack(
  { timing, delays }: RoundContext,
  decided: number,
  now: number,
): Beginning {
  const longest = graceOf(delays, timing) + viewStart(timing.viewMs, timing.voidView);
  const isInTime = decided > 0 && now > decided && now - decided < longest;
  return { begun: isInTime ? decided : now, back: now };
}

/**
 * Returns the beginning for a worker that was busy when the last round was decided: it closes with the others. A worker
 * more than half a view late counts as coming back.
 */
export const beginLate = (context: RoundContext, decided: number, now: number): Beginning =>
  now - decided > context.timing.viewMs / 2
    ? comeBack(context, decided, now)
    : { begun: Math.min(decided, now), back: null };

/** Returns until when a returning worker only listens: for half a view, twice the time an event takes. */
export const listensUntil = ({ begun, back }: Beginning, { timing }: RoundContext): number =>
  back === null ? begun : back + timing.viewMs / 2;

/** When a contribution arrived, and when it was signed. */
export interface Heard {
  readonly now: number;
  /** Signing time according to its author, in milliseconds. */
  readonly signed: number;
}

/**
 * Returns how long a contribution took to arrive. If this worker came back in mid-round, the signing time counts; if it
 * began anew and is still listening, the result is undefined.
 */
export function delayOf(
  { begun, back }: Beginning,
  context: RoundContext,
  { now, signed }: Heard,
): number | undefined {
  if (back === null) return now - begun;
  if (back !== begun) return Math.max(0, Math.min(signed, now) - begun);
  return now < listensUntil({ begun, back }, context) ? undefined : now - begun;
}

/**
 * Returns the arrival times to learn from a round. A worker that began anew alone may have begun late, so its times are
 * shifted until its own arrival is at least the median.
 */
export function delaysIn(
  delays: ReadonlyMap<WorkerId, number>,
  { begun, back }: Beginning,
  me: WorkerId,
): readonly number[] {
  const all = [...delays.values()];
  if (back !== begun) return all;
  const mine = delays.get(me);
  if (mine === undefined) return [];
  const moved = Math.max(0, mine - median(all));
  return all.map((delay) => delay + moved);
}

/** Returns the deadline for contributions. */
export const closingTime = (beginning: Beginning, context: RoundContext): number =>
  Math.max(
    listensUntil(beginning, context),
    beginning.begun + graceOf(context.delays, context.timing),
  );

/** Returns the lower median of integers; 0 for an empty list. */
function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[(sorted.length - 1) >> 1] ?? 0;
}
