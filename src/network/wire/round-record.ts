/** One round as the reference's checkpoints remember it: enough for a Python worker to resume from ours. */
import type { JsonObject } from '../../base/canonical-json.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';

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
  readonly knownWorkers: readonly WorkerId[];
  readonly collectedWorkers: readonly WorkerId[];
  /** Why collecting ended, in a word. */
  readonly reason: string;
  readonly gradientEventId: string;
  readonly heartbeatEventId: string;
  readonly relays: readonly string[];
  readonly examples: number;
  readonly totalWeight: number;
  readonly weighted: boolean;
}

/** The record with every member the reference writes; what it alone tracks is empty or zero. */
export function roundRecord(own: RoundRecord): JsonObject {
  const collected = new Set(own.collectedWorkers);
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
    published_gradient_event_id: own.gradientEventId,
    published_heartbeat_event_id: own.heartbeatEventId,
    published_checkpoint_event_id: '',
    configured_relays: own.relays,
    published_heartbeat_relays: own.relays,
    published_gradient_relays: own.relays,
    published_checkpoint_relays: [],
    collected_from_relays: own.relays,
    failed_relays: [],
    local_example_count: BigInt(own.examples),
    total_aggregation_weight: BigInt(own.totalWeight),
    aggregation_weighted: own.weighted,
    relay_retry_count: 0n,
    max_relay_attempt_count: 1n,
    retried_relays: [],
    reconciled_late_gradient_count: 0n,
    reconciled_late_aggregation_weight: 0n,
    reconciled_late_workers: [],
    reconciled_late_rounds: [],
    late_reconciliation_model_hash_before: '',
    late_reconciliation_model_hash_after: '',
    late_reconciliation_error_count: 0n,
  };
}
