/**
 * Checkpoint events to training states and back: content version 2 of the Python reference, states as f64 JSON. Outer
 * momentum turns its sign on the way, as gradients do. Large models do not fit an event; ask `checkpointFits` first.
 */
import { checkpoint } from '../../../kinds/checkpoint.ts';
import { utf8 } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import {
  canonicalize,
  canonicalJson,
  isJsonObject,
  type Json,
  type JsonObject,
  parseJson,
} from '../../formats/python-json.ts';
import { readState, stateToJson } from '../../formats/state-json.ts';
import type { EventDraft } from '../../network/event.ts';
import { signedEventBytes } from '../../network/event.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { type Params, sameLayout, stateDigest } from '../../tensor/params.ts';
import { countOf, listOf } from './round-record.ts';
import { flipped } from './sign.ts';

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
  readonly rounds: readonly JsonObject[];
  readonly lateGradients: readonly JsonObject[];
  readonly lateReconciliations: readonly JsonObject[];
  /** Unix seconds up to which late gradients were looked for. */
  readonly lateGradientSince: number;
  /** Unix seconds. */
  readonly updatedAt: number;
}

/** An unsigned checkpoint event. */
export function buildCheckpoint(own: TrainingCheckpoint, createdAt: number): EventDraft {
  const digest = stateDigest(own.state);
  const body = canonicalJson(contentOf(own, digest));
  const { run, worker, round, slot, nextRound, roundsCompleted } = own;
  const tags = { run, worker, round, slot, nextRound, roundsCompleted };
  return checkpoint.build(
    { ...tags, model: digest, checkpoint: sha256Hex(utf8(body)), body, scope: true },
    createdAt,
  );
}

/** The content as a file holds it, members in the order of the Python reference. */
export function contentOf(
  own: TrainingCheckpoint,
  digest: Digest = stateDigest(own.state),
): JsonObject {
  const { momentum } = own;
  const members: JsonObject = {
    format: 'nostrain-training-checkpoint',
    version: 2n,
    run: own.run,
    worker: own.worker,
    relays: own.relays,
    runtime: own.runtime,
    next_round: BigInt(own.nextRound),
    rounds_completed: BigInt(own.roundsCompleted),
    updated_at: BigInt(own.updatedAt),
    current_model_hash: digest,
    current_state: stateToJson(own.state),
    rounds: own.rounds,
    late_gradients: own.lateGradients,
    late_reconciliations: own.lateReconciliations,
    late_gradient_since: BigInt(own.lateGradientSince),
  };
  if (momentum === undefined) return members;
  const wire = { layout: momentum.layout, values: flipped(momentum.values) };
  return { ...members, momentum_state: stateToJson(wire) };
}

/** Bytes that most relays take in one event; a larger state stays on disk. */
export const MAX_CHECKPOINT_BYTES = 65_536;

/** Whether the signed event stays within a relay's limit. Cheap when it clearly does not. */
export function checkpointFits(own: TrainingCheckpoint, limitBytes: number): boolean {
  const shortest = '0.0,'.length;
  const values = own.state.layout.size + (own.momentum?.layout.size ?? 0);
  if (values * shortest > limitBytes) return false;
  return signedEventBytes(buildCheckpoint(own, own.updatedAt)) <= limitBytes;
}

/** The training state in a checkpoint's content, when it is what the tags say; hash and digest are recomputed. */
export function readCheckpointBody(
  said: CheckpointTags & { readonly body: string },
): Result<CheckpointBody> {
  if (!hashMatches(said.body, said.checkpoint)) {
    return refuse('bad-checkpoint', 'content', 'the checkpoint tag is not its hash');
  }
  const body = readBody(said.body, said);
  if (!body.ok || stateDigest(body.value.state) === said.model) return body;
  return refuse('bad-checkpoint', 'current_state', 'the model tag is not its digest');
}

/** The hash is over the canonical form, which is nearly always what was sent. */
function hashMatches(body: string, hash: string): boolean {
  if (sha256Hex(utf8(body)) === hash) return true;
  const canonical = canonicalize(body);
  return canonical.ok && sha256Hex(utf8(canonical.value)) === hash;
}

/** What a checkpoint's content says beyond its tags. */
export type CheckpointBody = Omit<
  TrainingCheckpoint,
  'run' | 'worker' | 'round' | 'nextRound' | 'roundsCompleted' | 'slot'
> & {
  /** Whose state it is; the publisher's own unless it says otherwise. */
  readonly writer: string;
};

type Claims = Pick<TrainingCheckpoint, 'run' | 'worker' | 'nextRound' | 'roundsCompleted'>;

interface CheckpointTags extends Claims {
  readonly model: string;
  readonly checkpoint: string;
}

function readBody(text: string, said: Claims): Result<CheckpointBody> {
  const json = parseJson(text);
  if (!json.ok) return json;
  if (!isJsonObject(json.value)) return refuse('bad-checkpoint', 'content', 'not an object');
  const body = json.value;
  const untrue = contradiction(body, said);
  if (untrue !== undefined) return refuse('bad-checkpoint', untrue, 'is not what the tag says');
  const state = readState(body.current_state);
  if (!state.ok) return state;
  const momentum =
    body.momentum_state === undefined ? ok(undefined) : readState(body.momentum_state);
  if (!momentum.ok) return momentum;
  if (momentum.value !== undefined && !sameLayout(momentum.value.layout, state.value.layout)) {
    return refuse('bad-checkpoint', 'momentum_state', 'has other tensors than current_state');
  }
  return ok({
    writer: body.worker === undefined ? said.worker : String(body.worker),
    state: state.value,
    momentum: momentum.value && {
      layout: state.value.layout,
      values: flipped(momentum.value.values),
    },
    runtime: typeof body.runtime === 'string' ? body.runtime : 'linear-regression',
    relays: listOf(body.relays).filter((relay) => typeof relay === 'string'),
    rounds: listOf(body.rounds).filter(isJsonObject),
    lateGradients: listOf(body.late_gradients).filter(isJsonObject),
    lateReconciliations: listOf(body.late_reconciliations).filter(isJsonObject),
    lateGradientSince: secondsOf(body.late_gradient_since),
    updatedAt: secondsOf(body.updated_at),
  });
}

/** The first member that disagrees with its tag. */
function contradiction(body: JsonObject, said: Claims): string | undefined {
  const completed = body.rounds_completed ?? BigInt(listOf(body.rounds).length);
  if (body.run !== said.run) return 'run';
  if (body.next_round !== BigInt(said.nextRound)) return 'next_round';
  return completed === BigInt(said.roundsCompleted) ? undefined : 'rounds_completed';
}

const secondsOf = (json: Json | undefined): number => countOf(json) ?? 0;
