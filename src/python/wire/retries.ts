/** Counts attempts and retries per relay: per operation, in total, and as the Python reference's JSON members. */
import type { PythonObject } from '../../formats/python-json.ts';
import type { PublishOutcome } from '../../network/transport/publish-outcome.ts';

/** Attempts of one operation at one relay. */
export type RelayAttempts = Pick<PublishOutcome, 'relay' | 'attempts' | 'delaysMs'>;

/** Operations, as named in failures and summaries. */
export type RelayOperation =
  | 'publish'
  | 'collect-heartbeats'
  | 'collect-checkpoints'
  | 'collect-gradients'
  | 'collect-late-gradients';

/** An operation that failed at one relay. */
export interface RelayFailure extends RelayAttempts {
  readonly operation: RelayOperation;
  readonly message: string;
}

/** Totals over several operations. */
export interface RetryTotals {
  /** Relays with more than one attempt, without repeats, in the order given. */
  readonly retriedRelays: readonly string[];
  readonly retries: number;
  /** At least 1. */
  readonly mostAttempts: number;
}

/** Returns the number of retries. */
const retriesOf = ({ attempts }: RelayAttempts): number => Math.max(0, attempts - 1);

/** Adds up the attempts of operations, both successful and failed. */
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

/** The members of `attemptMembers` and `recovered_after_retry`, for an operation that succeeded. */
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

/** Returns milliseconds as seconds, rounded to microseconds: 100.00000000000001 ms are 0.1 s. */
const secondsOf = (ms: number): number => Math.round(ms * 1000) / 1e6;
