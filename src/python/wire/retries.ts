/** How often each relay had to be tried: per operation, in total, and as the Python reference's JSON members. */
import type { PythonObject } from '../../formats/python-json.ts';

/** What one operation at one relay took. */
export interface RelayAttempts {
  readonly relay: string;
  /** Tries, the first included; 0 when none was worth making. */
  readonly attempts: number;
  /** The wait before each try after the first. */
  readonly delaysMs: readonly number[];
}

/** The names by which failures are told apart in summaries. */
export type RelayOperation =
  | 'publish'
  | 'collect-heartbeats'
  | 'collect-checkpoints'
  | 'collect-gradients'
  | 'collect-late-gradients';

/** An operation that one relay did not let through. */
export interface RelayFailure extends RelayAttempts {
  readonly operation: RelayOperation;
  readonly message: string;
}

/** Several operations taken together. */
export interface RetryTotals {
  /** Relays tried more than once, each named once, in the order given. */
  readonly retriedRelays: readonly string[];
  readonly retries: number;
  /** At least 1. */
  readonly mostAttempts: number;
}

/** Tries after the first. */
const retriesOf = ({ attempts }: RelayAttempts): number => Math.max(0, attempts - 1);

/** Adds up; what failed belongs in it as much as what succeeded. */
export function retryTotals(all: readonly RelayAttempts[]): RetryTotals {
  const retried = all.filter(({ attempts }) => attempts > 1).map(({ relay }) => relay);
  return {
    retriedRelays: [...new Set(retried)],
    retries: all.reduce((sum, each) => sum + retriesOf(each), 0),
    mostAttempts: Math.max(1, ...all.map(({ attempts }) => attempts)),
  };
}

/** `attempt_count`, `retry_count`, `retry_delays` in seconds. */
const attemptMembers = (took: RelayAttempts): PythonObject => ({
  attempt_count: BigInt(took.attempts),
  retry_count: BigInt(retriesOf(took)),
  retry_delays: took.delaysMs.map(secondsOf),
});

/** The same and `recovered_after_retry`, of an operation that succeeded in the end. */
export const recoveryMembers = (took: RelayAttempts): PythonObject => ({
  ...attemptMembers(took),
  recovered_after_retry: took.attempts > 1,
});

/** `retried_relays`, `total_retry_count`, `max_attempt_count`. */
export const totalsMembers = (totals: RetryTotals): PythonObject => ({
  retried_relays: totals.retriedRelays,
  total_retry_count: BigInt(totals.retries),
  max_attempt_count: BigInt(totals.mostAttempts),
});

/** One entry of `failed_relays`. */
export const failureMembers = (failure: RelayFailure): PythonObject => ({
  relay: failure.relay,
  operation: failure.operation,
  message: failure.message,
  ...attemptMembers(failure),
});

/** Seconds as a person would have typed them: 100.00000000000001 ms are 0.1 s. */
const secondsOf = (ms: number): number => Math.round(ms * 1000) / 1e6;
