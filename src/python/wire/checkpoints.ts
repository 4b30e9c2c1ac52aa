/**
 * Converts checkpoint events of the Python reference (content version 2, states as f64 JSON) to training states and
 * back, and prepares checkpoint files for publishing. Outer momentum changes its sign on the wire, like gradients.
 */
import { checkpoint } from '../../../kinds/checkpoint.ts';
import { utf8 } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import {
  canonicalize,
  canonicalJson,
  isJsonObject,
  type PythonJson,
  type PythonObject,
  parseJson,
} from '../../formats/python-json.ts';
import { readState, stateToJson } from '../../formats/state-json.ts';
import { type EventDraft, signedEventBytes } from '../../network/event.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { type Params, sameLayout, stateDigest } from '../../tensor/params.ts';
import { flipped } from './messages.ts';
import { countOf, listOf, textsOf } from './records.ts';

/** Everything a worker needs to continue after a round. */
export interface TrainingCheckpoint {
  readonly run: string;
  readonly worker: WorkerId;
  /** Last completed round. */
  readonly round: number;
  readonly nextRound: number;
  readonly roundsCompleted: number;
  /** Slot of the checkpoint that this one replaces; if absent, each round has its own. */
  readonly slot?: number | undefined;
  readonly state: Params;
  /** Outer momentum, in the sign of Δ = before - after. */
  readonly momentum: Params | undefined;
  readonly runtime: string;
  readonly relays: readonly string[];
  /** Round records, oldest first; copied without interpretation. */
  readonly rounds: readonly PythonObject[];
  readonly lateGradients: readonly PythonObject[];
  readonly lateReconciliations: readonly PythonObject[];
  /** Date of the newest gradient known, in Unix seconds. */
  readonly lateGradientSince: number;
  /** Unix seconds. */
  readonly updatedAt: number;
}

/** Builds an unsigned checkpoint event. */
export function buildCheckpoint(training: TrainingCheckpoint, createdAt: number): EventDraft {
  const digest = stateDigest(training.state);
  const body = canonicalJson(contentOf(training, digest));
  const { run, worker, round, slot, nextRound, roundsCompleted } = training;
  const tags = { run, worker, round, slot, nextRound, roundsCompleted };
  return checkpoint.build(
    { ...tags, model: digest, checkpoint: sha256Hex(utf8(body)), body, scope: true },
    createdAt,
  );
}

/** Returns the content of a checkpoint file, with members in the order of the Python reference. */
export const contentOf = (
  training: TrainingCheckpoint,
  digest: Digest = stateDigest(training.state),
): PythonObject => ({
  format: FORMAT,
  version: 2n,
  run: training.run,
  worker: training.worker,
  relays: training.relays,
  runtime: training.runtime,
  next_round: BigInt(training.nextRound),
  rounds_completed: BigInt(training.roundsCompleted),
  updated_at: BigInt(training.updatedAt),
  current_model_hash: digest,
  current_state: stateToJson(training.state),
  rounds: training.rounds,
  late_gradients: training.lateGradients,
  late_reconciliations: training.lateReconciliations,
  late_gradient_since: BigInt(training.lateGradientSince),
  ...(training.momentum && { momentum_state: stateToJson(negated(training.momentum)) }),
});

/** Converts momentum between the sign of the wire and ours. */
const negated = ({ layout, values }: Params): Params => ({ layout, values: flipped(values) });

/** Maximum size of a checkpoint event, which most relays accept; larger states are not published. */
export const MAX_CHECKPOINT_BYTES = 65_536;

/** Reports whether the signed event stays within a limit. Cheap if it clearly does not. */
export function checkpointFits(training: TrainingCheckpoint, limitBytes: number): boolean {
  const shortest = '0.0,'.length;
  const values = training.state.layout.size + (training.momentum?.layout.size ?? 0);
  if (values * shortest > limitBytes) return false;
  return signedEventBytes(buildCheckpoint(training, training.updatedAt)) <= limitBytes;
}

/** Members of a checkpoint's content that its tags do not repeat. */
export type CheckpointBody = Omit<
  TrainingCheckpoint,
  'run' | 'worker' | 'round' | 'nextRound' | 'roundsCompleted' | 'slot'
> & {
  /** The worker that wrote the state; default the publisher. */
  readonly writer: string;
};

/** Tags of a checkpoint event, and its content. */
interface CheckpointTags
  extends Pick<TrainingCheckpoint, 'run' | 'worker' | 'nextRound' | 'roundsCompleted'> {
  readonly model: string;
  readonly checkpoint: string;
  readonly body: string;
}

/** Reads the training state from a checkpoint's content, if it agrees with the tags; recomputes hash and digest. */
export function readCheckpointBody(tags: CheckpointTags): Result<CheckpointBody> {
  if (!hashMatches(tags.body, tags.checkpoint)) {
    return refuse('bad-checkpoint', 'content', 'the checkpoint tag is not its hash');
  }
  const json = parseJson(tags.body);
  if (!json.ok) return json;
  if (!isJsonObject(json.value)) return refuse('bad-checkpoint', 'content', 'not an object');
  const body = json.value;
  const untrue = contradiction(body, tags);
  if (untrue !== undefined) return refuse('bad-checkpoint', untrue, 'is not what the tag says');
  const states = readStates(body);
  if (!states.ok) return states;
  const { state, momentum } = states.value;
  if (stateDigest(state) !== tags.model) {
    return refuse('bad-checkpoint', 'current_state', 'the model tag is not its digest');
  }
  return ok({
    writer: body.worker === undefined ? tags.worker : String(body.worker),
    state,
    momentum: momentum && negated(momentum),
    runtime: typeof body.runtime === 'string' ? body.runtime : 'linear-regression',
    relays: textsOf(body.relays),
    rounds: listOf(body.rounds).filter(isJsonObject),
    lateGradients: listOf(body.late_gradients).filter(isJsonObject),
    lateReconciliations: listOf(body.late_reconciliations).filter(isJsonObject),
    lateGradientSince: countOf(body.late_gradient_since) ?? 0,
    updatedAt: countOf(body.updated_at) ?? 0,
  });
}

/** Compares the hash of the canonical form, which is nearly always the text that was sent. */
function hashMatches(body: string, hash: string): boolean {
  if (sha256Hex(utf8(body)) === hash) return true;
  const canonical = canonicalize(body);
  return canonical.ok && sha256Hex(utf8(canonical.value)) === hash;
}

/** Returns the name of the first member that disagrees with its tag. */
function contradiction(body: PythonObject, tags: CheckpointTags): string | undefined {
  const completed = body.rounds_completed ?? BigInt(listOf(body.rounds).length);
  if (body.run !== tags.run) return 'run';
  if (body.next_round !== BigInt(tags.nextRound)) return 'next_round';
  return completed === BigInt(tags.roundsCompleted) ? undefined : 'rounds_completed';
}

interface CheckpointStates {
  readonly state: Params;
  readonly momentum?: Params;
}

/** Reads the state and the momentum of a checkpoint; momentum has the sign of the wire. */
function readStates(json: PythonObject): Result<CheckpointStates> {
  const state = readState(json.current_state);
  if (!state.ok) return refuse('bad-checkpoint', 'current_state', state.issue.message);
  const { momentum_state: written } = json;
  if (written === undefined || written === null) return ok({ state: state.value });
  const momentum = readState(written);
  if (!momentum.ok) return refuse('bad-checkpoint', 'momentum_state', momentum.issue.message);
  if (!sameLayout(momentum.value.layout, state.value.layout)) {
    return refuse(
      'bad-checkpoint',
      'momentum_state',
      'its tensors differ from those of current_state',
    );
  }
  return ok({ state: state.value, momentum: momentum.value });
}

/** The fields of an event for a checkpoint in a file. */
export interface CheckpointFile {
  readonly run: string;
  /** Worker that wrote it. */
  readonly worker: string;
  readonly nextRound: number;
  readonly roundsCompleted: number;
  /** Digest of its state. */
  readonly model: string;
  /** Content of the event, canonical. */
  readonly body: string;
}

/** Reads a checkpoint file for publishing; recomputes everything that is derived from the state. */
export function readCheckpointFile(json: PythonObject): Result<CheckpointFile> {
  const { format, run, worker, next_round: nextRound, runtime = RUNTIMES[0]! } = json;
  if (format !== FORMAT) return refuse('bad-checkpoint', 'format', `it is not ${FORMAT}`);
  if (typeof run !== 'string') return refuse('bad-checkpoint', 'run', 'it is not text');
  if (typeof worker !== 'string') return refuse('bad-checkpoint', 'worker', 'it is not text');
  if (typeof nextRound !== 'bigint' || nextRound < 1n || nextRound > 0xffff_ffffn) {
    return refuse('bad-checkpoint', 'next_round', 'no round is completed: it must be at least 1');
  }
  if (!RUNTIMES.includes(runtime)) {
    return refuse('bad-checkpoint', 'runtime', `it must be one of ${RUNTIMES.join(', ')}`);
  }
  const history = readHistory(json);
  if (!history.ok) return history;
  const states = readStates(json);
  if (!states.ok) return states;
  const { state, momentum } = states.value;
  const model = stateDigest(state);
  const roundsCompleted = history.value.rounds!.length;
  const body = canonicalJson({
    ...json,
    ...history.value,
    current_state: stateToJson(state),
    ...(momentum && { momentum_state: stateToJson(momentum) }),
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

const FORMAT = 'nostrain-training-checkpoint';
const RUNTIMES: readonly (PythonJson | undefined)[] = ['linear-regression', 'mlp-regression'];

/** Members that the Python reference requires. */
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

type CheckpointHistory = Readonly<Record<string, readonly PythonObject[]>>;

function readHistory(json: PythonObject): Result<CheckpointHistory> {
  const history: Record<string, readonly PythonObject[]> = {};
  for (const [name, needed] of Object.entries(NEEDED)) {
    const records = listOf(json[name]).filter(isJsonObject);
    const missing = records.flatMap((record, i) =>
      needed.filter((member) => record[member] === undefined).map((member) => `${i}.${member}`),
    );
    if (missing.length > 0) {
      return refuse('bad-checkpoint', `${name}.${missing[0]}`, 'it is missing');
    }
    history[name] = records.map(withFloats);
  }
  return history.rounds!.length > 0
    ? ok(history)
    : refuse('bad-checkpoint', 'rounds', 'no round is completed');
}

/** Members that are floats, even if a program wrote them as integers such as `4`. */
const FLOATS: ReadonlySet<string> = new Set([
  'local_loss_before',
  'local_loss_after_inner',
  'local_loss_after_outer',
  'learning_rate',
  'momentum',
]);

const withFloats = (record: PythonObject): PythonObject =>
  Object.fromEntries(
    Object.entries(record).map(([name, value]) => [
      name,
      FLOATS.has(name) && typeof value === 'bigint' ? Number(value) : value,
    ]),
  );
