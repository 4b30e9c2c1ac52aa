/** Publishes one event of the Python reference to relays and reports each relay's answer. */
import { ConfigError, RelayError } from '../../base/errors.ts';
import type { PythonObject } from '../../formats/python-json.ts';
import { diagnosePublish, isTaken } from '../../network/transport/delivery.ts';
import type { PublishOutcome } from '../../network/transport/outbox.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { LooseEvent } from './reference-event.ts';
import {
  failureMembers,
  type RelayAttempts,
  type RelayFailure,
  recoveryMembers,
  retryTotals,
  totalsMembers,
} from './retries.ts';

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
  const attemptOf = ({ relay, attempts, delaysMs, message }: PublishOutcome) => ({
    relay,
    attempts,
    delaysMs,
    message,
  });
  return {
    relays: outcomes.map(({ relay }) => relay),
    eventId,
    accepted: outcomes
      .filter(isTaken)
      .map((outcome) => ({ ...attemptOf(outcome), notices: noticesOf(outcome.relay) })),
    failed: outcomes
      .filter((outcome) => !isTaken(outcome))
      .map((outcome) => ({ ...attemptOf(outcome), operation: 'publish' })),
  };
}

/** One entry of `results`, and the whole answer where there is one relay. */
export const acceptedMembers = (eventId: string, at: Accepted): PythonObject => ({
  relay: at.relay,
  event_id: eventId,
  accepted: true,
  message: at.message,
  notices: at.notices,
  ...recoveryMembers(at),
});

/** The answer over several relays. */
export const publishingMembers = (report: PublishingReport): PythonObject => ({
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
 * Sends a signed event of any kind to every relay at once, with retries as the ports say. Throws a RelayError
 * (`relay/not-published`) with every relay's reason when none accepts it, a ConfigError for an unsigned event or an
 * address that is none.
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
