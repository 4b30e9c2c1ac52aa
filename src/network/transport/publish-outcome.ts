/** What is published, with which patience, and what each relay answered. */
import type { PublishStatus } from './answers.ts';

/** Outcome of sending one event to one relay. */
export interface PublishOutcome {
  readonly relay: string;
  readonly status: PublishStatus;
  /** The relay's message, or our description if it sent none. */
  readonly message: string;
  /** Number of attempts, including the first; 0 if no attempt was made. */
  readonly attempts: number;
  /** Waits before each retry. */
  readonly delaysMs: readonly number[];
  /** False if the relay is known to lose events and did not return this one; the event may be sent again. */
  readonly kept?: false;
}

/** Options of `RelaySet.publish`. */
export interface SendOptions {
  /** Stops waiting. Without a signal, a relay that keeps requesting pauses is eventually given up. */
  readonly signal?: AbortSignal | undefined;
  readonly only?: readonly string[] | undefined;
  /** Drops the event instead of queueing it: the outcome is `throttled` if the rate limit allows no event now. */
  readonly skipWhenBusy?: boolean | undefined;
  /** Low priority: at a relay with a rate limit, all other events go first. */
  readonly isPatient?: boolean | undefined;
}
