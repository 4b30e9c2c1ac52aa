/**
 * Parses single untrusted events of the Python reference, possibly without signature or author: verifies what is
 * present, compares the content with the tags, and formats events as JSON members.
 */
import { schnorr } from '@noble/curves/secp256k1.js';
import { checkpoint } from '../../../kinds/checkpoint.ts';
import { gradient } from '../../../kinds/gradient.ts';
import { heartbeat } from '../../../kinds/heartbeat.ts';
import type { Kind } from '../../../kinds/index.ts';
import { fromHex, isHex32, toHex } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { isObject } from '../../base/shape.ts';
import { type PythonObject, parseJson } from '../../formats/python-json.ts';
import {
  type EventDraft,
  eventId,
  parseDraft,
  type SignedEvent,
  verifyEvent,
} from '../../network/event.ts';
import { type EventCrypto, pureCrypto } from '../../network/event-crypto.ts';
import {
  defaultPayloadLimits,
  type ForeignNstr,
  type ForeignNstrLimits,
  readNstr,
} from '../codec/payload.ts';
import { type CheckpointBody, readCheckpointBody } from './checkpoints.ts';
import { mismatch } from './messages.ts';

/** An event that may lack its author, id or signature. One with an author also has an id; a signature is verified. */
export interface LooseEvent
  extends EventDraft,
    Partial<Pick<SignedEvent, 'pubkey' | 'id' | 'sig'>> {}

/** `signable`: the author is known but the signature is missing. */
export type SigningState = 'signed' | 'signable' | 'unsigned';

/** Returns the signing state of an event. */
export function signingState({ pubkey, sig }: LooseEvent): SigningState {
  if (pubkey === undefined) return 'unsigned';
  return sig === undefined ? 'signable' : 'signed';
}

/** Returns the id of an event, or a hash of its content if it has no author. */
const fingerprint = (
  { id, kind, created_at, tags, content }: LooseEvent,
  { sha256Text }: EventCrypto = pureCrypto,
): string => id ?? toHex(sha256Text(JSON.stringify([kind, created_at, tags, content])));

/** Parses an event and drops unknown members, or returns why it is malformed. Never throws. */
function readLooseEvent(json: unknown, crypto = pureCrypto): Result<LooseEvent> {
  if (!isObject(json)) return refuse('malformed', 'event', 'an event is an object');
  if (json.sig !== undefined && json.id === undefined) {
    return refuse('malformed', 'id', 'a signed event has an id');
  }
  const draft = parseDraft(json);
  return draft.ok ? withAuthor(draft.value, json, crypto) : draft;
}

/** Author and signature of a draft, unverified. */
export interface Authorship {
  readonly pubkey?: unknown;
  readonly id?: unknown;
  readonly sig?: unknown;
}

/** Adds author and signature to a draft, if they are valid for it. */
export function withAuthor(
  draft: EventDraft,
  { pubkey, id, sig }: Authorship,
  crypto: EventCrypto = pureCrypto,
): Result<LooseEvent> {
  if (pubkey === undefined) {
    return id === undefined && sig === undefined
      ? ok(draft)
      : refuse('malformed', 'pubkey', 'an id or a signature needs a public key');
  }
  if (typeof pubkey !== 'string' || !isHex32(pubkey)) {
    return refuse('malformed', 'pubkey', 'not 64 lowercase hex digits');
  }
  if (sig === undefined && !isPublicKey(pubkey)) {
    return refuse('malformed', 'pubkey', 'not a point of the curve, so no key can sign for it');
  }
  const computed = eventId(pubkey, draft, crypto.sha256Text);
  if (id !== undefined && id !== computed) {
    return refuse('bad-id', 'id', `it is not the hash of the event, which is ${computed}`);
  }
  const signable = { ...draft, pubkey, id: computed };
  if (sig === undefined) return ok(signable);
  if (typeof sig !== 'string' || sig.length !== 128 || fromHex(sig) === undefined) {
    return refuse('malformed', 'sig', 'not 128 lowercase hex digits');
  }
  return verifyEvent({ ...signable, sig }, crypto);
}

/** Reports whether a point with this x exists. A valid signature proves it too. */
function isPublicKey(hex: string): boolean {
  try {
    schnorr.utils.lift_x(BigInt(`0x${hex}`)).assertValidity();
    return true;
  } catch {
    return false;
  }
}

type KindValue<K> = K extends Kind<infer T> ? T : never;

/** One of the three types of event. */
export type EventOf<T extends ReferenceEvent['type']> = Extract<ReferenceEvent, { type: T }>;

/** A parsed event; its tags have been compared with the content. */
export type ReferenceEvent = { readonly event: LooseEvent } & (
  | {
      readonly type: 'gradient';
      readonly tags: KindValue<typeof gradient>;
      /** Improvement (after - before), as on the wire. */
      readonly payload: ForeignNstr;
    }
  | { readonly type: 'heartbeat'; readonly tags: KindValue<typeof heartbeat> }
  | {
      readonly type: 'checkpoint';
      readonly tags: KindValue<typeof checkpoint>;
      readonly body: CheckpointBody;
    }
);

/** Options of `parseNostrainEvent`. */
export interface ReferenceEventOptions {
  /** Limits of a payload; default 64 MiB compressed and 2^24 values. With `zstd`, zstd payloads are read too. */
  readonly limits?: ForeignNstrLimits;
  /** For ids and signatures; default pure JavaScript; on Node pass `nativeCrypto`. */
  readonly crypto?: EventCrypto;
}

/**
 * Parses an untrusted gradient, heartbeat or checkpoint event, signed or not, or returns why it is refused. Verifies
 * id, signature, payload and checkpoint, but not that the author is the worker: compare `tags.worker` with the author.
 * Never throws.
 *
 * @example
 * ```ts
 * import { buildHeartbeatEvent, parseNostrainEvent } from 'nostrain/python';
 *
 * const heartbeat = { run: 'tea', round: 3, worker: 'alice', interval: 60, createdAt: 1_700_000_000 };
 * const read = parseNostrainEvent(buildHeartbeatEvent(heartbeat));
 * read.ok && read.value.type; // => 'heartbeat'
 * parseNostrainEvent({ kind: 1 }).ok; // => false
 * ```
 */
export function readReferenceEvent(
  json: unknown,
  { limits = defaultPayloadLimits, crypto = pureCrypto }: ReferenceEventOptions = {},
): Result<ReferenceEvent> {
  const event = readLooseEvent(json, crypto);
  return event.ok ? openReferenceEvent(event.value, limits) : event;
}

const kinds = { gradient, heartbeat, checkpoint };

/** Returns a parser for events of one type that refuses others. */
const parserOf =
  <T extends ReferenceEvent['type']>(type: T) =>
  (json: unknown, options: ReferenceEventOptions = {}): Result<EventOf<T>> => {
    const read = readReferenceEvent(json, options);
    if (!read.ok) return read;
    if (isOfType(read.value, type)) return ok(read.value);
    return refuse('wrong-kind', 'kind', `kind ${read.value.event.kind} is not ${kinds[type].kind}`);
  };

export const isOfType = <T extends ReferenceEvent['type']>(
  read: ReferenceEvent,
  type: T,
): read is EventOf<T> => read.type === type;

/**
 * Parses an untrusted gradient event, or returns why it is refused. The result has parsed tags in `tags` and the delta
 * (after - before) in `payload`. Never throws.
 *
 * @example
 * ```ts
 * import { buildGradientEvent, compressDelta, createLayout, parseGradientEvent } from 'nostrain/python';
 *
 * const layout = createLayout([{ name: 'w', shape: [2] }]);
 * const { payload } = compressDelta({ layout, values: Float64Array.of(0, 254) }, { ratio: 0.5 });
 * const about = { run: 'tea', round: 0, worker: 'alice', model: 'ab'.repeat(32), steps: 500 };
 * const read = parseGradientEvent(buildGradientEvent({ ...about, createdAt: 1_700_000_000 }, payload));
 * read.ok && read.value.tags.steps; // => 500
 * read.ok && read.value.payload.delta.values; // => Float64Array.of(254)
 * ```
 */
export const parseGradientEvent = parserOf('gradient');

/**
 * Parses an untrusted heartbeat event, or returns why it is refused. The result has parsed tags in `tags`. Never
 * throws.
 *
 * @example
 * ```ts
 * import { buildHeartbeatEvent, parseHeartbeatEvent } from 'nostrain/python';
 *
 * const heartbeat = { run: 'tea', round: 3, worker: 'alice', interval: 60, createdAt: 1_700_000_000 };
 * const read = parseHeartbeatEvent(buildHeartbeatEvent(heartbeat));
 * read.ok && read.value.tags.round; // => 3
 * ```
 */
export const parseHeartbeatEvent = parserOf('heartbeat');

/**
 * Parses an untrusted checkpoint event, or returns why it is refused. The result has parsed tags in `tags`, state and
 * history in `body`. Never throws.
 *
 * @example
 * ```ts
 * import { parseCheckpointEvent } from 'nostrain/python';
 *
 * const read = parseCheckpointEvent({ kind: 33335, created_at: 1_700_000_000, tags: [], content: '{}' });
 * read.ok; // => false
 * ```
 */
export const parseCheckpointEvent = parserOf('checkpoint');

/** Parses a gradient, heartbeat or checkpoint event whose id and signature have been verified. */
export function openReferenceEvent(
  event: LooseEvent,
  limits: ForeignNstrLimits,
): Result<ReferenceEvent> {
  switch (event.kind) {
    case gradient.kind:
      return readGradient(event, limits);
    case heartbeat.kind: {
      const parsed = heartbeat.parse(event);
      return parsed.ok ? ok({ type: 'heartbeat', event, tags: parsed.value }) : parsed;
    }
    case checkpoint.kind:
      return readCheckpoint(event);
    default: {
      const known = `${gradient.kind}, ${heartbeat.kind} or ${checkpoint.kind}`;
      return refuse('wrong-kind', 'kind', `kind ${event.kind} is not ${known}`);
    }
  }
}

function readGradient(event: LooseEvent, limits: ForeignNstrLimits): Result<ReferenceEvent> {
  const parsed = gradient.parse(event);
  if (!parsed.ok) return parsed;
  const payload = readNstr(parsed.value.payload, limits);
  if (!payload.ok) return payload;
  const untrue = mismatch(parsed.value, payload.value.stats);
  if (untrue !== undefined) return refuse('bad-tag', 'tags', untrue);
  return ok({ type: 'gradient', event, tags: parsed.value, payload: payload.value });
}

function readCheckpoint(event: LooseEvent): Result<ReferenceEvent> {
  const parsed = checkpoint.parse(event);
  if (!parsed.ok) return parsed;
  const body = readCheckpointBody(parsed.value);
  return body.ok ? ok({ type: 'checkpoint', event, tags: parsed.value, body: body.value }) : body;
}

/** Returns the members that `inspect-event --json` prints, in its order. */
export function inspectedEvent(read: ReferenceEvent, crypto?: EventCrypto): PythonObject {
  const { event, type, tags } = read;
  const state = signingState(event);
  return {
    event_id: fingerprint(event, crypto),
    type,
    kind: BigInt(event.kind),
    created_at: BigInt(event.created_at),
    signed: state === 'signed',
    signing_state: state,
    pubkey: event.pubkey ?? null,
    worker: tags.worker,
    run: tags.run,
    round: BigInt(tags.round),
    ...detailsOf(read),
  };
}

/** Returns the members of an event in the summaries of collect-events and the discover commands, in their order. */
export function collectedEvent(read: ReferenceEvent, crypto?: EventCrypto): PythonObject {
  const { event, tags } = read;
  const round = BigInt(tags.round);
  const [run, worker] = [tags.run, tags.worker];
  const identity = {
    gradient: { run, round, worker },
    heartbeat: { run, worker, current_round: round },
    checkpoint: { run, worker, round },
  }[read.type];
  return {
    event_id: fingerprint(event, crypto),
    kind: BigInt(event.kind),
    created_at: BigInt(event.created_at),
    signed: signingState(event) === 'signed',
    pubkey: event.pubkey ?? null,
    ...identity,
    ...detailsOf(read),
  };
}

/** Returns the members of `collectedEvent`, the event itself and, for a checkpoint, its content. */
export function collectedWhole(read: ReferenceEvent, crypto?: EventCrypto): PythonObject {
  const whole = { ...collectedEvent(read, crypto), event: eventJson(read.event) };
  if (read.type !== 'checkpoint') return whole;
  const content = parseJson(read.tags.body);
  return { ...whole, checkpoint: content.ok ? content.value : null };
}

/** Returns the JSON of an event as the Python reference writes it into files. */
export const eventJson = ({
  kind,
  created_at,
  tags,
  content,
  ...author
}: LooseEvent): PythonObject => ({
  kind: BigInt(kind),
  created_at: BigInt(created_at),
  tags,
  content,
  ...(author.pubkey === undefined ? {} : { pubkey: author.pubkey }),
  ...(author.id === undefined ? {} : { id: author.id }),
  ...(author.sig === undefined ? {} : { sig: author.sig }),
});

function detailsOf(read: ReferenceEvent): PythonObject {
  switch (read.type) {
    case 'gradient': {
      const { model, steps, examples, compression } = read.tags;
      const { stats } = read.payload;
      return {
        model,
        steps: BigInt(steps),
        example_count: whole(examples),
        aggregation_weight: BigInt(examples ?? 1),
        compression,
        parameter_count: BigInt(stats.tensors),
        total_values: BigInt(stats.total),
        selected_values: BigInt(stats.selected),
        density: stats.density,
        wire_bytes: BigInt(stats.containerBytes),
        compression_ratio: stats.compressionRatio,
      };
    }
    case 'heartbeat':
      return {
        heartbeat_interval: BigInt(read.tags.interval),
        example_count: whole(read.tags.examples),
        capabilities: read.tags.capabilities ?? [],
        advertised_relays: read.tags.relays ?? [],
      };
    case 'checkpoint':
      return {
        history_slot: whole(read.tags.slot),
        next_round: BigInt(read.tags.nextRound),
        model: read.tags.model,
        rounds_completed: BigInt(read.tags.roundsCompleted),
        checkpoint_updated_at: BigInt(read.body.updatedAt),
      };
  }
}

const whole = (value: number | undefined): bigint | null =>
  value === undefined ? null : BigInt(value);
