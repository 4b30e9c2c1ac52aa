/** One round as the Python reference's checkpoints and summaries tell it: written with every member, read back from strangers. */

import { ok, type Result, refuse } from '../../base/errors.ts';
import { isJsonObject, type Json, type JsonObject } from '../../formats/python-json.ts';
import type { Digest } from '../../run/ids.ts';
import { type RetryTotals, retryTotals } from './publishing.ts';

/** One round as the summary of a session tells it. */
export interface RoundRecord {
  readonly round: number;
  readonly digestBefore: Digest;
  readonly digestAfter: Digest;
  /** Mean loss on the own data: before the round, after the inner steps, after the outer step. */
  readonly losses: {
    readonly before: number;
    readonly afterInner: number;
    readonly afterOuter: number;
  };
  readonly knownWorkers: readonly string[];
  readonly collectedWorkers: readonly string[];
  /** Why collecting ended, in a word of the Python reference's. */
  readonly reason: string;
  readonly heartbeat: SentRecord;
  readonly gradient: SentRecord;
  readonly checkpoint: SentRecord;
  readonly relays: {
    readonly configured: readonly string[];
    readonly collected: readonly string[];
    readonly failed: readonly string[];
  };
  /** Of the own dataset. */
  readonly examples: number;
  readonly totalWeight: number;
  readonly weighted: boolean;
  readonly retries: RetryTotals;
  readonly late: LateSummary;
}

/** An own event, and which relays had taken it when the record was made. */
export interface SentRecord {
  readonly eventId: string;
  readonly relays: readonly string[];
}

/** Late gradients that were folded in before the round. */
export interface LateSummary {
  readonly count: number;
  readonly weight: number;
  readonly workers: readonly string[];
  readonly rounds: readonly number[];
  readonly digestBefore: string;
  readonly digestAfter: string;
  /** Late gradients that could not be read. */
  readonly errors: number;
}

export const NOT_SENT: SentRecord = { eventId: '', relays: [] };
const NO_RETRIES = retryTotals([]);
export const NOTHING_LATE: LateSummary = {
  count: 0,
  weight: 0,
  workers: [],
  rounds: [],
  digestBefore: '',
  digestAfter: '',
  errors: 0,
};

/** What is known of a round of which no such record was kept; the rest is empty or zero. */
export const plainRecord = (
  known: Pick<
    RoundRecord,
    'round' | 'digestBefore' | 'digestAfter' | 'losses' | 'collectedWorkers' | 'reason'
  >,
  relays: readonly string[],
): RoundRecord => ({
  ...known,
  knownWorkers: known.collectedWorkers,
  heartbeat: { eventId: '', relays },
  gradient: { eventId: '', relays },
  checkpoint: NOT_SENT,
  relays: { configured: relays, collected: relays, failed: [] },
  examples: 0,
  totalWeight: 0,
  weighted: true,
  retries: NO_RETRIES,
  late: NOTHING_LATE,
});

/** The record with every member the Python reference writes, in its order. */
export function roundRecord(own: RoundRecord): JsonObject {
  const collected = new Set(own.collectedWorkers);
  const { relays, retries, late } = own;
  return {
    round: BigInt(own.round),
    model_hash_before: own.digestBefore,
    model_hash_after: own.digestAfter,
    local_loss_before: own.losses.before,
    local_loss_after_inner: own.losses.afterInner,
    local_loss_after_outer: own.losses.afterOuter,
    collected_event_count: BigInt(own.collectedWorkers.length),
    known_workers: own.knownWorkers,
    collected_workers: own.collectedWorkers,
    missing_workers: own.knownWorkers.filter((worker) => !collected.has(worker)),
    completion_reason: own.reason,
    published_gradient_event_id: own.gradient.eventId,
    published_heartbeat_event_id: own.heartbeat.eventId,
    published_checkpoint_event_id: own.checkpoint.eventId,
    configured_relays: relays.configured,
    published_heartbeat_relays: own.heartbeat.relays,
    published_gradient_relays: own.gradient.relays,
    published_checkpoint_relays: own.checkpoint.relays,
    collected_from_relays: relays.collected,
    failed_relays: relays.failed,
    local_example_count: BigInt(own.examples),
    total_aggregation_weight: BigInt(own.totalWeight),
    aggregation_weighted: own.weighted,
    relay_retry_count: BigInt(retries.retries),
    max_relay_attempt_count: BigInt(retries.mostAttempts),
    retried_relays: retries.retriedRelays,
    reconciled_late_gradient_count: BigInt(late.count),
    reconciled_late_aggregation_weight: BigInt(late.weight),
    reconciled_late_workers: late.workers,
    reconciled_late_rounds: late.rounds.map(BigInt),
    late_reconciliation_model_hash_before: late.digestBefore,
    late_reconciliation_model_hash_after: late.digestAfter,
    late_reconciliation_error_count: BigInt(late.errors),
  };
}

/** A record in a checkpoint from anyone; members the Python reference calls optional may be missing. */
export function readRoundRecord(json: Json): Result<RoundRecord> {
  if (!isJsonObject(json)) return refuse('bad-checkpoint', 'rounds', 'a round is an object');
  const [round, digestBefore] = [countOf(json.round), json.model_hash_before];
  const { model_hash_after: digestAfter, completion_reason: reason } = json;
  const losses = [json.local_loss_before, json.local_loss_after_inner, json.local_loss_after_outer];
  const [before, afterInner, afterOuter] = losses.map(numberOf);
  if (round === undefined || !isText(digestBefore) || !isText(digestAfter) || !isText(reason)) {
    return refuse('bad-checkpoint', 'rounds', 'a round lacks its number, a digest or its end');
  }
  if (before === undefined || afterInner === undefined || afterOuter === undefined) {
    return refuse('bad-checkpoint', 'rounds', 'a round lacks its losses');
  }
  const sent = (what: string): SentRecord => ({
    eventId: textOf(json[`published_${what}_event_id`]),
    relays: textsOf(json[`published_${what}_relays`]),
  });
  return ok({
    round,
    digestBefore,
    digestAfter,
    reason,
    losses: { before, afterInner, afterOuter },
    knownWorkers: textsOf(json.known_workers),
    collectedWorkers: textsOf(json.collected_workers),
    heartbeat: sent('heartbeat'),
    gradient: sent('gradient'),
    checkpoint: sent('checkpoint'),
    relays: {
      configured: textsOf(json.configured_relays),
      collected: textsOf(json.collected_from_relays),
      failed: textsOf(json.failed_relays),
    },
    examples: countOf(json.local_example_count) ?? 0,
    totalWeight: countOf(json.total_aggregation_weight) ?? 0,
    weighted: json.aggregation_weighted === true,
    retries: {
      retries: countOf(json.relay_retry_count) ?? 0,
      mostAttempts: countOf(json.max_relay_attempt_count) ?? 1,
      retriedRelays: textsOf(json.retried_relays),
    },
    late: readLateSummary(json),
  });
}

const readLateSummary = (json: JsonObject): LateSummary => ({
  count: countOf(json.reconciled_late_gradient_count) ?? 0,
  weight: countOf(json.reconciled_late_aggregation_weight) ?? 0,
  workers: textsOf(json.reconciled_late_workers),
  rounds: listOf(json.reconciled_late_rounds).flatMap((item) => countOf(item) ?? []),
  digestBefore: textOf(json.late_reconciliation_model_hash_before),
  digestAfter: textOf(json.late_reconciliation_model_hash_after),
  errors: countOf(json.late_reconciliation_error_count) ?? 0,
});

const isText = (json: Json | undefined): json is string => typeof json === 'string';

export const textOf = (json: Json | undefined): string => (isText(json) ? json : '');

export const listOf = (json: Json | undefined): readonly Json[] =>
  Array.isArray(json) ? json : [];

export const textsOf = (json: Json | undefined): readonly string[] => listOf(json).filter(isText);

/** A whole number from 0 that a double holds exactly. */
export const countOf = (json: Json | undefined): number | undefined =>
  typeof json === 'bigint' && json >= 0n && json <= BigInt(Number.MAX_SAFE_INTEGER)
    ? Number(json)
    : undefined;

export const numberOf = (json: Json | undefined): number | undefined =>
  typeof json === 'bigint' || typeof json === 'number' ? Number(json) : undefined;
