/** Late gradients as the Python reference's checkpoints remember them, and what was done with them. */

import { ok, type Result, refuse } from '../../base/errors.ts';
import { isJsonObject, type Json, type JsonObject } from '../../formats/python-json.ts';
import type { Digest } from '../../run/ids.ts';
import { countOf, listOf, numberOf, textOf, textsOf } from './round-record.ts';

/** A gradient that came after its round was closed. */
export interface LateGradient {
  readonly round: number;
  readonly worker: string;
  readonly eventId: string;
  /** Unix seconds, as signed. */
  readonly createdAt: number;
  /** Digest of the state it was made from, as its author says. */
  readonly base: string;
  readonly examples?: number | undefined;
  /** Base64, as it came; absent where only the fact is known. */
  readonly payload?: string | undefined;
  /** Set once it is in the model. */
  readonly folded?:
    | {
        readonly round: number;
        readonly digestBefore: string;
        readonly digestAfter: string;
      }
    | undefined;
  /** Why it never will be. */
  readonly error?: string | undefined;
}

/** One outer step over late gradients. */
export interface Reconciliation {
  /** The round before whose training it was taken. */
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

/** Whether it still waits to be folded in. */
export const isPending = ({ payload, folded, error }: LateGradient): boolean =>
  payload !== undefined && folded === undefined && error === undefined;

/** Members in the Python reference's order; what is unknown is left out. */
export function lateGradientJson(late: LateGradient): JsonObject {
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

/** A record in a checkpoint from anyone. */
export function readLateGradient(json: Json): Result<LateGradient> {
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

/** Members in the Python reference's order. */
export const reconciliationJson = (done: Reconciliation): JsonObject => ({
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

/** A summary in a checkpoint from anyone. */
export function readReconciliation(json: Json): Result<Reconciliation> {
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
