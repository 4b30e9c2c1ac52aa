/** Publishes an event of the Python reference to relays and reports each relay's answer. */
import { ConfigError, RelayError } from '../../base/errors.ts';
import type { PythonObject } from '../../formats/python-json.ts';
import { diagnosePublish, isTaken } from '../../network/transport/delivery.ts';
import type { PublishOutcome } from '../../network/transport/publish-outcome.ts';
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

/** A relay that accepted the event. */
export interface Accepted extends RelayAttempts {
  readonly message: string;
  /** NOTICE messages of the relay. */
  readonly notices: readonly string[];
}

/** The result of `publishNostrainEvent`, for each relay. */
export interface PublishingReport {
  readonly relays: readonly string[];
  readonly eventId: string;
  readonly accepted: readonly Accepted[];
  readonly failed: readonly RelayFailure[];
}

/** Builds the report of one `publish` from its outcomes, one per relay; `noticesOf` returns the NOTICEs of a relay. */
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

/** JSON members of one entry of `results`; with one relay they are the whole answer. */
export const acceptedMembers = (eventId: string, at: Accepted): PythonObject => ({
  relay: at.relay,
  event_id: eventId,
  accepted: true,
  message: at.message,
  notices: at.notices,
  ...recoveryMembers(at),
});

/** JSON members of the answer for several relays. */
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

/** Ports of `publishNostrainEvent`, as `createRelayPorts` returns them. */
export interface PublishingPorts {
  /** Opens a set of these relays, which the caller closes. */
  openAll(relays: readonly string[]): RelaySet;
  readonly signal: AbortSignal;
}

/**
 * Sends a signed event of any kind to all relays concurrently, with the retries of the ports. Throws a RelayError
 * (`relay/not-published`) with every relay's reason if no relay accepts it, and a ConfigError for an unsigned event or
 * an invalid address.
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
 * const offline = 'ws://127.0.0.1:1';
 * const report = await publishNostrainEvent([relay.url, offline], event, ports);
 * await relay.close();
 * report.accepted.map(({ relay, attempts }) => [relay, attempts]); // => [[relay.url, 1]]
 * report.failed.map(({ relay }) => relay); // => [offline]
 * ```
 */
export async function publishNostrainEvent(
  relays: readonly string[],
  { pubkey, id, sig, ...draft }: LooseEvent,
  ports: PublishingPorts,
): Promise<PublishingReport> {
  if (pubkey === undefined || id === undefined || sig === undefined) {
    throw new ConfigError('event/unsigned', 'the event is not signed, so no relay accepts it', {
      hint: 'build it with a signer, or with pubkey, id and sig',
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
      `no relay accepted the event${tries}: ${diagnosePublish(statuses, outcomes).join('; ')}`,
      { hint: 'add another relay (--relay URL), or retry more often (--relay-retries N)' },
    );
  } finally {
    await set.close();
  }
}
