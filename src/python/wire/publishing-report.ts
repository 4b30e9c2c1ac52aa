/** What became of one event at all relays, in the JSON members of the Python reference. */

import type { JsonObject } from '../../formats/python-json.ts';
import { isTaken } from '../../network/transport/delivery.ts';
import type { PublishOutcome } from '../../network/transport/publishing.ts';
import {
  failureMembers,
  type RelayAttempts,
  type RelayFailure,
  recoveryMembers,
  retryTotals,
  totalsMembers,
} from './retry-telemetry.ts';

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
