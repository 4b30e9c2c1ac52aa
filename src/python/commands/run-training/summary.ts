/** A session in the Python reference's summary JSON, members in its order. */

import { stateDigest } from '../../../tensor/digest.ts';
import { indentedJson, type JsonObject } from '../../json.ts';
import { isPending, lateGradientJson, reconciliationJson } from '../../wire/late-record.ts';
import { retryTotals } from '../../wire/retry-telemetry.ts';
import { roundRecord } from '../../wire/round-record.ts';
import { noHistory } from '../../worker/history.ts';
import type { PythonState } from '../../worker/session.ts';

export interface SessionFacts {
  readonly run: string;
  readonly worker: string;
  readonly relays: readonly string[];
  readonly runtime: string;
  readonly backend: string;
  /** Where this session began, unless earlier rounds are known. */
  readonly startRound: number;
  readonly checkpointHistory: number;
  readonly artifactRetentionRounds: number | undefined;
}

/** What `--summary-out` writes. */
export function sessionSummary(state: PythonState, facts: SessionFacts): JsonObject {
  const { records, late, reconciliations } = state.history ?? noHistory;
  const { artifactRetentionRounds: kept } = facts;
  const retries = records.map((record) => record.retries);
  return {
    run: facts.run,
    worker: facts.worker,
    relays: facts.relays,
    runtime: facts.runtime,
    backend: facts.backend,
    start_round: BigInt(records[0]?.round ?? facts.startRound),
    rounds_completed: BigInt(records.length),
    final_model_hash: stateDigest(state.params),
    checkpoint_history: BigInt(facts.checkpointHistory),
    artifact_retention_rounds: kept === undefined ? null : BigInt(kept),
    late_gradient_count: BigInt(late.length),
    reconciled_late_gradient_count: BigInt(late.filter(({ folded }) => folded).length),
    pending_late_gradient_count: BigInt(late.filter(isPending).length),
    late_gradient_error_count: BigInt(late.filter(({ error }) => error !== undefined).length),
    relay_retry_count: BigInt(retries.reduce((sum, each) => sum + each.retries, 0)),
    max_relay_attempt_count: BigInt(
      Math.max(retryTotals([]).mostAttempts, ...retries.map(({ mostAttempts }) => mostAttempts)),
    ),
    retried_relays: [...new Set(retries.flatMap(({ retriedRelays }) => retriedRelays))],
    rounds: records.map(roundRecord),
    ...(late.length === 0 ? {} : { late_gradients: late.map(lateGradientJson) }),
    ...(reconciliations.length === 0
      ? {}
      : { late_reconciliations: reconciliations.map(reconciliationJson) }),
  };
}

/** A JSON file of the Python reference: two spaces, newline at the end. */
export const jsonText = (json: JsonObject): string => `${indentedJson(json)}\n`;
