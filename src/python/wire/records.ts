/**
 * Records of rounds and late gradients in checkpoints of the Python reference: writes them with all members, and reads
 * them from untrusted checkpoints.
 */
import { ok, type Result, refuse } from '../../base/errors.ts';
import { isJsonObject, type PythonJson, type PythonObject } from '../../formats/python-json.ts';
import type { Digest } from '../../run/ids.ts';
import { type RetryTotals, retryTotals } from './retries.ts';

/** The record of one round in the summary of a session. */
export interface RoundRecord {
  readonly round: number;
  readonly digestBefore: Digest;
  readonly digestAfter: Digest;
  /** Mean loss on this worker's data: before the round, after the inner steps, after the outer step. */
  readonly losses: {
    readonly before: number;
    readonly afterInner: number;
    readonly afterOuter: number;
  };
  readonly knownWorkers: readonly string[];
  readonly collectedWorkers: readonly string[];
  /** Why collecting ended, as the Python reference names it. */
  readonly reason: string;
  readonly heartbeat: SentRecord;
  readonly gradient: SentRecord;
  readonly checkpoint: SentRecord;
  readonly relays: {
    readonly configured: readonly string[];
    readonly collected: readonly string[];
    readonly failed: readonly string[];
  };
  /** Number of examples of this worker's dataset. */
  readonly examples: number;
  readonly totalWeight: number;
  readonly weighted: boolean;
  readonly retries: RetryTotals;
  readonly late: LateSummary;
}

/** An event of this worker, and the relays that had accepted it when the record was made. */
export interface SentRecord {
  readonly eventId: string;
  readonly relays: readonly string[];
}

/** Summary of the late gradients that were applied before the round. */
export interface LateSummary {
  readonly count: number;
  readonly weight: number;
  readonly workers: readonly string[];
  readonly rounds: readonly number[];
  readonly digestBefore: string;
  readonly digestAfter: string;
  /** Number of late gradients that could not be decoded. */
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

/** Returns a record with what is known of a round for which no record was kept; other members are empty or zero. */
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

/** Returns the JSON of a record with all members that the Python reference writes, in its order. */
export function roundRecord(record: RoundRecord): PythonObject {
  const collected = new Set(record.collectedWorkers);
  const { relays, retries, late } = record;
  return {
    round: BigInt(record.round),
    model_hash_before: record.digestBefore,
    model_hash_after: record.digestAfter,
    local_loss_before: record.losses.before,
    local_loss_after_inner: record.losses.afterInner,
    local_loss_after_outer: record.losses.afterOuter,
    collected_event_count: BigInt(record.collectedWorkers.length),
    known_workers: record.knownWorkers,
    collected_workers: record.collectedWorkers,
    missing_workers: record.knownWorkers.filter((worker) => !collected.has(worker)),
    completion_reason: record.reason,
    published_gradient_event_id: record.gradient.eventId,
    published_heartbeat_event_id: record.heartbeat.eventId,
    published_checkpoint_event_id: record.checkpoint.eventId,
    configured_relays: relays.configured,
    published_heartbeat_relays: record.heartbeat.relays,
    published_gradient_relays: record.gradient.relays,
    published_checkpoint_relays: record.checkpoint.relays,
    collected_from_relays: relays.collected,
    failed_relays: relays.failed,
    local_example_count: BigInt(record.examples),
    total_aggregation_weight: BigInt(record.totalWeight),
    aggregation_weighted: record.weighted,
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

/** Reads a record from an untrusted checkpoint; members that the Python reference treats as optional may be missing. */
export function readRoundRecord(json: PythonJson): Result<RoundRecord> {
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

const readLateSummary = (json: PythonObject): LateSummary => ({
  count: countOf(json.reconciled_late_gradient_count) ?? 0,
  weight: countOf(json.reconciled_late_aggregation_weight) ?? 0,
  workers: textsOf(json.reconciled_late_workers),
  rounds: listOf(json.reconciled_late_rounds).flatMap((item) => countOf(item) ?? []),
  digestBefore: textOf(json.late_reconciliation_model_hash_before),
  digestAfter: textOf(json.late_reconciliation_model_hash_after),
  errors: countOf(json.late_reconciliation_error_count) ?? 0,
});

const isText = (json: PythonJson | undefined): json is string => typeof json === 'string';

const textOf = (json: PythonJson | undefined): string => (isText(json) ? json : '');

export const listOf = (json: PythonJson | undefined): readonly PythonJson[] =>
  Array.isArray(json) ? json : [];

export const textsOf = (json: PythonJson | undefined): readonly string[] =>
  listOf(json).filter(isText);

/** Returns a non-negative integer that a double represents exactly, else undefined. */
export const countOf = (json: PythonJson | undefined): number | undefined =>
  typeof json === 'bigint' && json >= 0n && json <= BigInt(Number.MAX_SAFE_INTEGER)
    ? Number(json)
    : undefined;

const numberOf = (json: PythonJson | undefined): number | undefined =>
  typeof json === 'bigint' || typeof json === 'number' ? Number(json) : undefined;

/** A gradient that arrived after its round was closed. */
export interface LateGradient {
  readonly round: number;
  readonly worker: string;
  readonly eventId: string;
  /** Unix seconds, as signed. */
  readonly createdAt: number;
  /** Digest of the state it was made from, according to its author. */
  readonly base: string;
  readonly examples?: number | undefined;
  /** Payload in base64, as received; absent if only the event is known. */
  readonly payload?: string | undefined;
  /** Set after it was applied to the model. */
  readonly folded?:
    | {
        readonly round: number;
        readonly digestBefore: string;
        readonly digestAfter: string;
      }
    | undefined;
  /** Why it cannot be applied. */
  readonly error?: string | undefined;
}

/** One outer step over late gradients. */
export interface Reconciliation {
  /** The round before whose training the step was taken. */
  readonly round: number;
  readonly workers: readonly string[];
  readonly lateRounds: readonly number[];
  readonly eventIds: readonly string[];
  readonly learningRate: number;
  readonly momentum: number;
  readonly digestBefore: Digest;
  readonly digestAfter: Digest;
  readonly totalWeight: number;
  readonly weighted: boolean;
  /** Unix seconds. */
  readonly appliedAt: number;
}

/** Reports whether a late gradient is still to be applied. */
export const isPending = ({ payload, folded, error }: LateGradient): boolean =>
  payload !== undefined && folded === undefined && error === undefined;

/** Returns the JSON of a late gradient, members in the Python reference's order; unknown ones are omitted. */
export function lateGradientJson(late: LateGradient): PythonObject {
  const { examples, payload, folded, error } = late;
  return {
    round: BigInt(late.round),
    worker: late.worker,
    event_id: late.eventId,
    created_at: BigInt(late.createdAt),
    model_hash: late.base,
    ...(examples === undefined ? {} : { example_count: BigInt(examples) }),
    ...(payload === undefined ? {} : { payload }),
    ...(folded === undefined
      ? {}
      : {
          reconciliation_round: BigInt(folded.round),
          reconciliation_model_hash_before: folded.digestBefore,
          reconciliation_model_hash_after: folded.digestAfter,
        }),
    ...(error === undefined ? {} : { reconciliation_error: error }),
  };
}

/** Reads a late gradient from an untrusted checkpoint. */
export function readLateGradient(json: PythonJson): Result<LateGradient> {
  if (!isJsonObject(json)) return refuse('bad-checkpoint', 'late_gradients', 'not an object');
  const [round, createdAt] = [countOf(json.round), countOf(json.created_at)];
  const [worker, eventId] = [textOf(json.worker), textOf(json.event_id)];
  if (round === undefined || createdAt === undefined || worker === '' || eventId === '') {
    return refuse('bad-checkpoint', 'late_gradients', 'lacks its round, date, worker or event');
  }
  const foldedIn = countOf(json.reconciliation_round);
  const payload = typeof json.payload === 'string' ? json.payload : undefined;
  const error =
    typeof json.reconciliation_error === 'string' ? json.reconciliation_error : undefined;
  return ok({
    round,
    worker,
    eventId,
    createdAt,
    base: textOf(json.model_hash),
    examples: countOf(json.example_count),
    payload,
    folded:
      foldedIn === undefined
        ? undefined
        : {
            round: foldedIn,
            digestBefore: textOf(json.reconciliation_model_hash_before),
            digestAfter: textOf(json.reconciliation_model_hash_after),
          },
    error,
  });
}

/** Returns the JSON of a reconciliation, members in the Python reference's order. */
export const reconciliationJson = (done: Reconciliation): PythonObject => ({
  current_round: BigInt(done.round),
  event_count: BigInt(done.eventIds.length),
  workers: done.workers,
  late_rounds: done.lateRounds.map(BigInt),
  event_ids: done.eventIds,
  learning_rate: done.learningRate,
  momentum: done.momentum,
  model_hash_before: done.digestBefore,
  model_hash_after: done.digestAfter,
  total_aggregation_weight: BigInt(done.totalWeight),
  aggregation_weighted: done.weighted,
  applied_at: BigInt(done.appliedAt),
});

/** Reads a reconciliation from an untrusted checkpoint. */
export function readReconciliation(json: PythonJson): Result<Reconciliation> {
  if (!isJsonObject(json)) return refuse('bad-checkpoint', 'late_reconciliations', 'not an object');
  const [round, appliedAt] = [countOf(json.current_round), countOf(json.applied_at)];
  const [learningRate, momentum] = [numberOf(json.learning_rate), numberOf(json.momentum)];
  if (round === undefined || appliedAt === undefined) {
    return refuse('bad-checkpoint', 'late_reconciliations', 'lacks its round or date');
  }
  if (learningRate === undefined || momentum === undefined) {
    return refuse('bad-checkpoint', 'late_reconciliations', 'lacks its rate or momentum');
  }
  return ok({
    round,
    appliedAt,
    learningRate,
    momentum,
    workers: textsOf(json.workers),
    lateRounds: listOf(json.late_rounds).flatMap((item) => countOf(item) ?? []),
    eventIds: textsOf(json.event_ids),
    digestBefore: textOf(json.model_hash_before),
    digestAfter: textOf(json.model_hash_after),
    totalWeight: countOf(json.total_aggregation_weight) ?? 0,
    weighted: json.aggregation_weighted === true,
  });
}
