/** Retry policy with exponential backoff. Computes delays only; the caller waits on its `Clock`. */

export interface RetryPolicy {
  /** Tries in all, the first included: 1 never tries again. */
  readonly maxAttempts: number;
  /** Wait after the first failure. */
  readonly initialMs: number;
  /** Longest wait; `Infinity` for no cap. */
  readonly maxMs: number;
  /** Growth of the wait from one failure to the next, at least 1. */
  readonly multiplier: number;
  /** `full` draws the wait uniformly from 0 to the computed delay, so that many workers do not retry at once. */
  readonly jitter: 'full' | 'none';
}

/** Four tries, with random waits from a quarter of a second up to two. */
export const defaultRetry: RetryPolicy = {
  maxAttempts: 4,
  initialMs: 250,
  maxMs: 2000,
  multiplier: 2,
  jitter: 'full',
};

/** The wait after the `failures`-th failure in a row, counted from 1; `random` draws from [0, 1). */
export function backoffMs(policy: RetryPolicy, failures: number, random: () => number): number {
  if (policy.initialMs === 0) return 0;
  const grown = policy.initialMs * policy.multiplier ** (failures - 1);
  const ms = Math.min(policy.maxMs, grown);
  return policy.jitter === 'full' ? ms * random() : ms;
}
