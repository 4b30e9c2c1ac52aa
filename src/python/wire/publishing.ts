/**
 * Publishing one event of the Python reference to relays: who accepted it, how often each relay had to be tried,
 * and both as JSON members.
 */

import { ConfigError, RelayError } from '../../base/errors.ts';
import type { JsonObject } from '../../formats/python-json.ts';
import { diagnosePublish, isTaken } from '../../network/transport/delivery.ts';
import type { PublishOutcome } from '../../network/transport/publishing.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { LooseEvent } from './reference-event.ts';

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
export const retriesOf = ({ attempts }: RelayAttempts): number => Math.max(0, attempts - 1);

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
const attemptMembers = (took: RelayAttempts): JsonObject => ({
  attempt_count: BigInt(took.attempts),
  retry_count: BigInt(retriesOf(took)),
  retry_delays: took.delaysMs.map(secondsOf),
});

/** The same and `recovered_after_retry`, of an operation that succeeded in the end. */
export const recoveryMembers = (took: RelayAttempts): JsonObject => ({
  ...attemptMembers(took),
  recovered_after_retry: took.attempts > 1,
});

/** `retried_relays`, `total_retry_count`, `max_attempt_count`. */
export const totalsMembers = (totals: RetryTotals): JsonObject => ({
  retried_relays: totals.retriedRelays,
  total_retry_count: BigInt(totals.retries),
  max_attempt_count: BigInt(totals.mostAttempts),
});

/** One entry of `failed_relays`. */
export const failureMembers = (failure: RelayFailure): JsonObject => ({
  relay: failure.relay,
  operation: failure.operation,
  message: failure.message,
  ...attemptMembers(failure),
});

/** Seconds as a person would have typed them: 100.00000000000001 ms are 0.1 s. */
const secondsOf = (ms: number): number => Math.round(ms * 1000) / 1e6;

/** A relay that has the event. */
export interface Accepted extends RelayAttempts {
  readonly message: string;
  /** What the relay said besides. */
  readonly notices: readonly string[];
}

/** What `publishNostrainEvent` gives: one result for each relay. */
export interface PublishingReport {
  readonly relays: readonly string[];
  readonly eventId: string;
  readonly accepted: readonly Accepted[];
  readonly failed: readonly RelayFailure[];
}

/** The outcomes of one `publish`, one per relay; `noticesOf` gives what a relay said meanwhile. */
export function reportPublishing(
  eventId: string,
  outcomes: readonly PublishOutcome[],
  noticesOf: (relay: string) => readonly string[] = () => [],
): PublishingReport {
  const told = outcomes.map((outcome) => ({
    isHere: isTaken(outcome),
    relay: outcome.relay,
    attempts: outcome.attempts,
    delaysMs: outcome.delaysMs,
    message: outcome.message,
  }));
  return {
    relays: told.map(({ relay }) => relay),
    eventId,
    accepted: told
      .filter(({ isHere }) => isHere)
      .map(({ isHere: _, ...at }) => ({ ...at, notices: noticesOf(at.relay) })),
    failed: told
      .filter(({ isHere }) => !isHere)
      .map(({ isHere: _, ...at }) => ({ ...at, operation: 'publish' })),
  };
}

/** One entry of `results`, and the whole answer where there is one relay. */
export const acceptedMembers = (eventId: string, at: Accepted): JsonObject => ({
  relay: at.relay,
  event_id: eventId,
  accepted: true,
  message: at.message,
  notices: at.notices,
  ...recoveryMembers(at),
});

/** The answer over several relays. */
export const publishingMembers = (report: PublishingReport): JsonObject => ({
  relays: report.relays,
  event_id: report.eventId,
  accepted: report.accepted.length > 0,
  accepted_relays: report.accepted.map(({ relay }) => relay),
  accepted_count: BigInt(report.accepted.length),
  ...totalsMembers(retryTotals([...report.accepted, ...report.failed])),
  failed_relays: report.failed.map(failureMembers),
  results: report.accepted.map((at) => acceptedMembers(report.eventId, at)),
});

/** What `publishNostrainEvent` needs of a machine, as `createRelayPorts` gives it. */
export interface PublishingPorts {
  /** A set of these relays; it is closed after use. */
  openAll(relays: readonly string[]): RelaySet;
  readonly signal: AbortSignal;
}

/**
 * Sends a signed event to every relay at once, tried as often as the ports say: who took it, after how many attempts, and who
 * did not. The event's kind makes no difference. Throws a RelayError (`relay/not-published`) that words every relay's reason
 * when none took it, a ConfigError for an
 * event that is not signed or an address that is none.
 *
 * @example
 * ```ts
 * import { buildHeartbeatEvent, createRelayPorts, createSigner, publishNostrainEvent } from 'nostrain/python';
 * import { openSocket } from 'nostrain/node';
 * import { createRelay } from 'nostrain/relay';
 *
 * const relay = await createRelay();
 * const signer = createSigner(new Uint8Array(32).fill(3));
 * const heartbeat = { run: 'tea', round: 0, worker: signer.publicKey, interval: 60 };
 * const event = buildHeartbeatEvent({ ...heartbeat, createdAt: Math.floor(Date.now() / 1000) }, signer);
 * const ports = createRelayPorts({ openSocket });
 * const nobody = 'ws://127.0.0.1:1';
 * const report = await publishNostrainEvent([relay.url, nobody], event, ports);
 * await relay.close();
 * report.accepted.map(({ relay, attempts }) => [relay, attempts]); // => [[relay.url, 1]]
 * report.failed.map(({ relay }) => relay); // => [nobody]
 * ```
 */
export async function publishNostrainEvent(
  relays: readonly string[],
  { pubkey, id, sig, ...draft }: LooseEvent,
  ports: PublishingPorts,
): Promise<PublishingReport> {
  if (pubkey === undefined || id === undefined || sig === undefined) {
    throw new ConfigError('event/unsigned', 'the event is not signed: no relay takes it', {
      hint: 'build it with a signer, or with the signature of one',
    });
  }
  const set = ports.openAll(relays);
  try {
    const outcomes = await set.publish({ ...draft, pubkey, id, sig }, { signal: ports.signal });
    const statuses = set.status();
    const noticesOf = (url: string) => statuses.find(({ relay }) => relay === url)?.notices ?? [];
    const report = reportPublishing(id, outcomes, noticesOf);
    if (report.accepted.length > 0) return report;
    const { mostAttempts } = retryTotals(report.failed);
    const tries = mostAttempts === 1 ? '' : ` in ${mostAttempts} attempts`;
    throw new RelayError(
      'relay/not-published',
      `no relay took the event${tries}: ${diagnosePublish(statuses, outcomes).join('; ')}`,
      { hint: 'add another relay (--relay URL), or try more often (--relay-retries N)' },
    );
  } finally {
    await set.close();
  }
}
