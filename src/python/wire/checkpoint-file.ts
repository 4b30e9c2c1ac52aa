/** Training checkpoints in files of the Python reference, made ready to be published as events (kind 33335). */

import { ok, type Result, refuse } from '../../base/errors.ts';
import {
  canonicalJson,
  isJsonObject,
  type Json,
  type JsonObject,
} from '../../formats/python-json.ts';
import { readState, stateToJson } from '../../formats/state-json.ts';
import { sameLayout, stateDigest } from '../../tensor/params.ts';

/** What a checkpoint's event says of it. */
export interface CheckpointFile {
  readonly run: string;
  /** Who wrote it. */
  readonly worker: string;
  readonly nextRound: number;
  readonly roundsCompleted: number;
  /** Digest of its state. */
  readonly model: string;
  /** Content of the event, canonical. */
  readonly body: string;
}

const FORMAT = 'nostrain-training-checkpoint';
const RUNTIMES: readonly (Json | undefined)[] = ['linear-regression', 'mlp-regression'];

/** A checkpoint that can be published, with what is derived in it derived again. */
export function readCheckpointFile(json: JsonObject): Result<CheckpointFile> {
  const { format, run, worker, next_round: nextRound, runtime = RUNTIMES[0]! } = json;
  if (format !== FORMAT) return refuse('bad-checkpoint', 'format', `it is not ${FORMAT}`);
  if (typeof run !== 'string') return refuse('bad-checkpoint', 'run', 'it is not text');
  if (typeof worker !== 'string') return refuse('bad-checkpoint', 'worker', 'it is not text');
  if (!isRound(nextRound)) {
    return refuse('bad-checkpoint', 'next_round', 'no round is completed: it must be from 1 on');
  }
  if (!RUNTIMES.includes(runtime)) {
    return refuse('bad-checkpoint', 'runtime', `it is none of ${RUNTIMES.join(', ')}`);
  }
  const history = readHistory(json);
  if (!history.ok) return history;
  const states = readStates(json);
  if (!states.ok) return states;
  const { model, ...written } = states.value;
  const roundsCompleted = history.value.rounds.length;
  const body = canonicalJson({
    ...json,
    ...history.value,
    ...written,
    version: 2n,
    relays: listOf(json.relays),
    runtime,
    rounds_completed: BigInt(roundsCompleted),
    updated_at: json.updated_at ?? 0n,
    current_model_hash: model,
    late_gradient_since: json.late_gradient_since ?? 0n,
  });
  return ok({ run, worker, nextRound: Number(nextRound), roundsCompleted, model, body });
}

interface History {
  readonly rounds: readonly JsonObject[];
  readonly late_gradients: readonly JsonObject[];
  readonly late_reconciliations: readonly JsonObject[];
}

/** Members that a reader of the Python reference cannot do without. */
const NEEDED = {
  rounds: [
    'round',
    'model_hash_before',
    'model_hash_after',
    'local_loss_before',
    'local_loss_after_inner',
    'local_loss_after_outer',
    'collected_event_count',
    'completion_reason',
    'published_gradient_event_id',
    'published_heartbeat_event_id',
  ],
  late_gradients: ['round', 'worker', 'event_id', 'created_at', 'model_hash'],
  late_reconciliations: ['current_round', 'event_count', 'model_hash_before', 'model_hash_after'],
};

function readHistory(json: JsonObject): Result<History> {
  const found: Record<string, readonly JsonObject[]> = {};
  for (const [name, needed] of Object.entries(NEEDED)) {
    const records = listOf(json[name]).filter(isJsonObject);
    const missing = records.flatMap((record, i) =>
      needed.filter((member) => record[member] === undefined).map((member) => `${i}.${member}`),
    );
    if (missing.length > 0)
      return refuse('bad-checkpoint', `${name}.${missing[0]}`, 'it is missing');
    found[name] = records.map(withFloats);
  }
  const { rounds = [], late_gradients = [], late_reconciliations = [] } = found;
  if (rounds.length === 0) return refuse('bad-checkpoint', 'rounds', 'no round is completed');
  return ok({ rounds, late_gradients, late_reconciliations });
}

/** Members that are floats, also where a program wrote them as `4`. */
const FLOATS: ReadonlySet<string> = new Set([
  'local_loss_before',
  'local_loss_after_inner',
  'local_loss_after_outer',
  'learning_rate',
  'momentum',
]);

const withFloats = (record: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(record).map(([name, value]) => [
      name,
      FLOATS.has(name) && typeof value === 'bigint' ? Number(value) : value,
    ]),
  );

interface States {
  readonly model: string;
  readonly current_state: JsonObject;
  readonly momentum_state?: JsonObject;
}

function readStates(json: JsonObject): Result<States> {
  const state = readState(json.current_state);
  if (!state.ok) return refuse('bad-checkpoint', 'current_state', state.issue.message);
  const now = { model: stateDigest(state.value), current_state: stateToJson(state.value) };
  if (json.momentum_state === undefined || json.momentum_state === null) return ok(now);
  const momentum = readState(json.momentum_state);
  if (!momentum.ok) return refuse('bad-checkpoint', 'momentum_state', momentum.issue.message);
  if (!sameLayout(momentum.value.layout, state.value.layout)) {
    return refuse('bad-checkpoint', 'momentum_state', 'it has other tensors than current_state');
  }
  return ok({ ...now, momentum_state: stateToJson(momentum.value) });
}

const isRound = (json: Json | undefined): json is bigint =>
  typeof json === 'bigint' && json >= 1n && json <= 0xffff_ffffn;

const listOf = (json: Json | undefined): readonly Json[] => (Array.isArray(json) ? json : []);
