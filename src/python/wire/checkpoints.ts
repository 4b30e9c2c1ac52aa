/**
 * Checkpoints of the Python reference (content version 2, states as f64 JSON): events to training states and back, and
 * files made ready to be published. Outer momentum flips its sign on the way, as gradients do.
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

/** Everything a worker needs to go on from a round. */
export interface TrainingCheckpoint {
  readonly run: string;
  readonly worker: WorkerId;
  /** Last completed round. */
  readonly round: number;
  readonly nextRound: number;
  readonly roundsCompleted: number;
  /** Which of the kept checkpoints this one replaces; absent keeps one per round. */
  readonly slot?: number | undefined;
  readonly state: Params;
  /** Outer momentum, in the sign of Δ = before - after. */
  readonly momentum: Params | undefined;
  readonly runtime: string;
  readonly relays: readonly string[];
  /** Round records, oldest first; carried on, not interpreted. */
  readonly rounds: readonly PythonObject[];
  readonly lateGradients: readonly PythonObject[];
  readonly lateReconciliations: readonly PythonObject[];
  /** Unix seconds up to which late gradients were looked for. */
  readonly lateGradientSince: number;
  /** Unix seconds. */
  readonly updatedAt: number;
}

/** An unsigned checkpoint event. */
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

/** The content as a file holds it, members in the order of the Python reference. */
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

/** Momentum with the sign of the wire, or back. */
const negated = ({ layout, values }: Params): Params => ({ layout, values: flipped(values) });

/** Maximum size of a checkpoint event, which most relays take; a larger state stays on disk. */
export const MAX_CHECKPOINT_BYTES = 65_536;

/** Whether the signed event stays within a relay's limit. Cheap when it clearly does not. */
export function checkpointFits(training: TrainingCheckpoint, limitBytes: number): boolean {
  const shortest = '0.0,'.length;
  const values = training.state.layout.size + (training.momentum?.layout.size ?? 0);
  if (values * shortest > limitBytes) return false;
  return signedEventBytes(buildCheckpoint(training, training.updatedAt)) <= limitBytes;
}

/** What a checkpoint's content says beyond its tags. */
export type CheckpointBody = Omit<
  TrainingCheckpoint,
  'run' | 'worker' | 'round' | 'nextRound' | 'roundsCompleted' | 'slot'
> & {
  /** Whose state it is; the publisher's own unless it says otherwise. */
  readonly writer: string;
};

/** What the tags of a checkpoint event say of its content. */
interface CheckpointTags
  extends Pick<TrainingCheckpoint, 'run' | 'worker' | 'nextRound' | 'roundsCompleted'> {
  readonly model: string;
  readonly checkpoint: string;
  readonly body: string;
}

/** The training state in a checkpoint's content, when it is what the tags say; hash and digest are recomputed. */
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

/** The hash is over the canonical form, which is nearly always what was sent. */
function hashMatches(body: string, hash: string): boolean {
  if (sha256Hex(utf8(body)) === hash) return true;
  const canonical = canonicalize(body);
  return canonical.ok && sha256Hex(utf8(canonical.value)) === hash;
}

/** The first member that disagrees with its tag. */
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

/** The state and the momentum in a checkpoint, in the sign of the wire. */
function readStates(json: PythonObject): Result<CheckpointStates> {
  const state = readState(json.current_state);
  if (!state.ok) return refuse('bad-checkpoint', 'current_state', state.issue.message);
  const { momentum_state: written } = json;
  if (written === undefined || written === null) return ok({ state: state.value });
  const momentum = readState(written);
  if (!momentum.ok) return refuse('bad-checkpoint', 'momentum_state', momentum.issue.message);
  if (!sameLayout(momentum.value.layout, state.value.layout)) {
    return refuse('bad-checkpoint', 'momentum_state', 'it has other tensors than current_state');
  }
  return ok({ state: state.value, momentum: momentum.value });
}

/** What a checkpoint's event says of a checkpoint in a file. */
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

/** A checkpoint that can be published, with everything derived in it computed again. */
export function readCheckpointFile(json: PythonObject): Result<CheckpointFile> {
  const { format, run, worker, next_round: nextRound, runtime = RUNTIMES[0]! } = json;
  if (format !== FORMAT) return refuse('bad-checkpoint', 'format', `it is not ${FORMAT}`);
  if (typeof run !== 'string') return refuse('bad-checkpoint', 'run', 'it is not text');
  if (typeof worker !== 'string') return refuse('bad-checkpoint', 'worker', 'it is not text');
  if (typeof nextRound !== 'bigint' || nextRound < 1n || nextRound > 0xffff_ffffn) {
    return refuse('bad-checkpoint', 'next_round', 'no round is completed: it must be from 1 on');
  }
  if (!RUNTIMES.includes(runtime)) {
    return refuse('bad-checkpoint', 'runtime', `it is none of ${RUNTIMES.join(', ')}`);
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

/** Members that are floats, also where a program wrote them as `4`. */
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
