/** Builds events of the Python reference, signed or not, and BIP-340 signatures in hex. */
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { checkpoint } from '../../../kinds/checkpoint.ts';
import { gradient } from '../../../kinds/gradient.ts';
import { heartbeat } from '../../../kinds/heartbeat.ts';
import { fromHex, toHex, utf8 } from '../../base/bytes.ts';
import { ConfigError, type Result } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';
import { isJsonObject, parseJson } from '../../formats/python-json.ts';
import { type EventDraft, type Signer, verifySignature } from '../../network/event.ts';
import { pureSchnorr } from '../../network/event-crypto.ts';
import type { NstrStats } from '../codec/nstr.ts';
import { type ForeignNstrLimits, inspectPayload } from '../codec/payload.ts';
import { type CheckpointFile, readCheckpointFile } from './checkpoints.ts';
import { payloadTags } from './messages.ts';
import { type Authorship, type LooseEvent, withAuthor } from './reference-event.ts';

/** A signer; or a public key, optionally with id and signature from another signer; or nothing, for no author yet. */
export type EventAuthor = Signer | Authorship;

interface RoundEventMetadata {
  readonly run: string;
  /** Current round of the worker, from 0. */
  readonly round: number;
  /** Name of the worker; peers refuse it unless it is the public key of the signer. */
  readonly worker: string;
  /** Unix seconds. */
  readonly createdAt: number;
}

/** Fields of a gradient event other than its payload. */
export interface GradientEventMetadata extends RoundEventMetadata {
  /** Digest of the state from which the round started. */
  readonly model: string;
  /** Number of inner steps taken. */
  readonly steps: number;
  /** Number of examples seen, the weight in a weighted mean; default weight 1. */
  readonly examples?: number | undefined;
}

/** Fields of a heartbeat event. */
export interface HeartbeatEventMetadata extends RoundEventMetadata {
  /** Seconds until the next heartbeat is due. */
  readonly interval: number;
  /** Number of examples the worker has. */
  readonly examples?: number | undefined;
  /** Abilities of the worker; default `gradient-event`. */
  readonly capabilities?: readonly string[] | undefined;
  /** Other relays of the worker. */
  readonly relays?: readonly string[] | undefined;
}

/** Fields of a checkpoint event other than the checkpoint. */
export interface CheckpointEventMetadata {
  /** Name of the worker; default the worker in the checkpoint. */
  readonly worker?: string | undefined;
  /** Slot of the checkpoint that it replaces; without a slot, each round has its own checkpoint. */
  readonly slot?: number | undefined;
  /** Unix seconds. */
  readonly createdAt: number;
}

/** Builds a draft of a gradient event (kind 33333). Throws a TypeError for a value that the kind does not allow. */
export const gradientDraft = (
  { createdAt, ...metadata }: GradientEventMetadata,
  payload: string,
  stats: NstrStats,
): EventDraft => gradient.build({ ...metadata, payload, ...payloadTags(stats) }, createdAt);

/** Builds a draft of a heartbeat event (kind 33334). Throws a TypeError for a value that the kind does not allow. */
export const heartbeatDraft = ({
  createdAt,
  capabilities = ['gradient-event'],
  ...metadata
}: HeartbeatEventMetadata): EventDraft => heartbeat.build({ ...metadata, capabilities }, createdAt);

/** Builds a draft of a checkpoint event (kind 33335). Throws a TypeError for a value that the kind does not allow. */
export const checkpointDraft = (
  { worker, slot, createdAt }: CheckpointEventMetadata,
  { nextRound, ...file }: CheckpointFile,
): EventDraft =>
  checkpoint.build(
    {
      ...file,
      worker: worker ?? file.worker,
      round: nextRound - 1,
      nextRound,
      slot,
      checkpoint: sha256Hex(utf8(file.body)),
    },
    createdAt,
  );

/**
 * Builds a gradient event (kind 33333) for a base64 payload; the tags state the sizes of the payload. Throws a
 * ConfigError for a bad payload or author, a TypeError for a value that the kind does not allow.
 *
 * @example
 * ```ts
 * import { buildGradientEvent, compressDelta, createLayout, createSigner, signingState } from 'nostrain/python';
 *
 * const signer = createSigner(new Uint8Array(32).fill(3));
 * const layout = createLayout([{ name: 'w', shape: [2] }]);
 * const { payload } = compressDelta({ layout, values: Float64Array.of(1, 2) }, { ratio: 1 });
 * const about = { run: 'tea', round: 0, worker: signer.publicKey, model: 'ab'.repeat(32), steps: 500 };
 * const event = buildGradientEvent({ ...about, createdAt: 1_700_000_000 }, payload, signer);
 * event.kind; // => 33333
 * signingState(event); // => 'signed'
 * ```
 */
export function buildGradientEvent(
  about: GradientEventMetadata,
  payload: string,
  author: EventAuthor = {},
  limits: Partial<ForeignNstrLimits> = {},
): LooseEvent {
  const stats = unwrap(inspectPayload(payload, limits), 'payload/refused', 'the payload');
  return authored(gradientDraft(about, payload, stats), author);
}

/**
 * Builds a heartbeat event (kind 33334). Throws a ConfigError for a bad author, a TypeError for a value that the kind
 * does not allow.
 *
 * @example
 * ```ts
 * import { buildHeartbeatEvent, createSigner } from 'nostrain/python';
 *
 * const signer = createSigner(new Uint8Array(32).fill(3));
 * const heartbeat = { run: 'tea', round: 3, worker: signer.publicKey, interval: 60 };
 * const event = buildHeartbeatEvent({ ...heartbeat, createdAt: 1_700_000_000 }, signer);
 * event.pubkey; // => signer.publicKey
 * ```
 */
export const buildHeartbeatEvent = (
  about: HeartbeatEventMetadata,
  author: EventAuthor = {},
): LooseEvent => authored(heartbeatDraft(about), author);

/**
 * Builds a checkpoint event (kind 33335) from the JSON text of a training checkpoint; computes digest, hash and
 * canonical form. Throws a ConfigError for a bad checkpoint or author, a TypeError for a value that the kind does not
 * allow.
 *
 * @example
 * ```ts
 * import { buildCheckpointEvent, parseCheckpointEvent } from 'nostrain/python';
 *
 * const record = {
 *   round: 0,
 *   model_hash_before: 'ab',
 *   model_hash_after: 'cd',
 *   collected_event_count: 1,
 *   local_loss_before: 4.5,
 *   local_loss_after_inner: 0.5,
 *   local_loss_after_outer: 0.5,
 *   completion_reason: 'idle-timeout',
 *   published_gradient_event_id: '',
 *   published_heartbeat_event_id: '',
 * };
 * const checkpoint = JSON.stringify({
 *   format: 'nostrain-training-checkpoint',
 *   run: 'tea',
 *   worker: 'alice',
 *   next_round: 1,
 *   rounds: [record],
 *   current_state: { parameters: { w: { shape: [2], values: [1, 2.5] } } },
 * });
 * const read = parseCheckpointEvent(buildCheckpointEvent({ createdAt: 1_700_000_000 }, checkpoint));
 * read.ok && read.value.body.state.values; // => Float64Array.of(1, 2.5)
 * ```
 */
export function buildCheckpointEvent(
  about: CheckpointEventMetadata,
  checkpointText: string,
  author: EventAuthor = {},
): LooseEvent {
  const json = unwrap(parseJson(checkpointText), 'checkpoint/refused', 'the checkpoint');
  const file = readCheckpointFile(isJsonObject(json) ? json : {});
  return authored(
    checkpointDraft(about, unwrap(file, 'checkpoint/refused', 'the checkpoint')),
    author,
  );
}

const authored = (draft: EventDraft, author: EventAuthor): LooseEvent =>
  'sign' in author
    ? author.sign(draft)
    : unwrap(withAuthor(draft, author), 'event/author', 'the author');

function unwrap<T>(result: Result<T>, code: string, what: string): T {
  if (result.ok) return result.value;
  const { at, message } = result.issue;
  throw new ConfigError(code, `${what} cannot be used, ${at}: ${message}`);
}

/**
 * Returns the deterministic signature of 32 bytes (an event id), as 128 hex digits. Throws a ConfigError
 * (`key/invalid`) for a bad key, a RangeError for a message of another length.
 *
 * @example
 * ```ts
 * import { schnorrSign, schnorrVerify, secretKeyToPublicKey } from 'nostrain/python';
 *
 * const secretKey = '3'.padStart(64, '0');
 * const message = new Uint8Array(32);
 * const signature = schnorrSign(message, secretKey);
 * signature.slice(0, 8); // => 'e907831f'
 * schnorrVerify(message, secretKeyToPublicKey(secretKey), signature); // => true
 * ```
 */
export function schnorrSign(message: Uint8Array, secretKey: string): string {
  const key = keyBytes(secretKey);
  if (message.length !== 32) throw new RangeError(`a message has 32 bytes, not ${message.length}`);
  return toHex(pureSchnorr.sign(message, key));
}

/**
 * Reports whether a signature (128 hex digits) of 32 bytes is valid for a public key (64 hex digits). Never throws.
 *
 * @example
 * ```ts
 * import { schnorrVerify } from 'nostrain/python';
 *
 * schnorrVerify(new Uint8Array(32), 'no key', 'no signature'); // => false
 * ```
 */
export const schnorrVerify = (message: Uint8Array, publicKey: string, signature: string): boolean =>
  verifySignature(signature, message, publicKey);

/**
 * Returns the x-only public key of a secret key, both 64 hex digits. Throws a ConfigError (`key/invalid`) for a bad
 * key.
 *
 * @example
 * ```ts
 * import { secretKeyToPublicKey } from 'nostrain/python';
 *
 * const publicKey = secretKeyToPublicKey('3'.padStart(64, '0'));
 * publicKey; // => 'f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9'
 * ```
 */
export const secretKeyToPublicKey = (secretKey: string): string =>
  toHex(schnorr.getPublicKey(keyBytes(secretKey)));

function keyBytes(secretKey: string): Uint8Array {
  const key = fromHex(secretKey.trim().toLowerCase());
  if (key !== undefined && secp256k1.utils.isValidSecretKey(key)) return key;
  throw new ConfigError('key/invalid', 'this text is not a secret key', {
    hint: 'use 64 hex digits; `createSecretKey` of nostrain/node generates a key',
  });
}
