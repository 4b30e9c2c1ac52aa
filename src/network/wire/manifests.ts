/**
 * Manifest events to a worker's commitment for a round and back. A payload of at most 44 KiB rides inside; a larger one is
 * pulled chunk by chunk from anybody. What the payload decodes to is its codec's business.
 */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { manifest } from '../../../kinds/manifest.ts';
import { fromBase64, toBase64, toHex, utf8 } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import type { Rejection } from '../../run/contribution.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { isPayload, type PayloadRoot } from '../chunks/merkle.ts';
import type { EventDraft, Sha256, SignedEvent } from '../event.ts';
import { type ChunkPlan, expirationOf, type Lifetime, planChunks } from './chunks.ts';
import { signedEventBytes } from './gradients.ts';
import { accept, type Judged, judgeClaim, reject } from './judged.ts';

/** What a worker says of its own payload. */
export interface OwnManifest {
  readonly run: string;
  readonly round: number;
  /** Digest of the state the worker started the round from. */
  readonly base: Digest;
  /** How the payload is packed, for example `topk-0.1000-int8-zlib`. */
  readonly codec: string;
  readonly examples: number;
  readonly steps: number;
  /** Id of the worker's last manifest; absent in its first. */
  readonly prev?: string | undefined;
}

/** A manifest that came from a relay. */
export interface Manifest extends OwnManifest, PayloadRoot {
  readonly worker: WorkerId;
  readonly eventId: string;
  /** SHA-256 of the payload. */
  readonly hash: Digest;
  /** The payload itself, checked, when it is small enough to ride inside. */
  readonly payload: Uint8Array | undefined;
  /** Unix seconds, as signed. */
  readonly createdAt: number;
  readonly eventBytes: number;
}

export interface BuiltManifest {
  readonly draft: EventDraft;
  /** To be published before the manifest; absent when the payload rides inside. */
  readonly chunks: ChunkPlan | undefined;
  /** JSON of the manifest once it is signed. */
  readonly eventBytes: number;
}

export interface ManifestContext {
  readonly run: string;
  /** The only round that counts; undefined takes every round. */
  readonly round: number | undefined;
  /** Digest of the state this worker starts the round from. */
  readonly base: Digest;
  /** Whether others must have started from the same bits. */
  readonly checkBase: boolean;
  readonly maxPayloadBytes: number;
  readonly nowSeconds: number;
}

/** An unsigned manifest of a payload, and the chunks that go before it. */
export function buildManifest(
  own: OwnManifest,
  payload: Uint8Array,
  lifetime: Lifetime,
  hash: Sha256 = sha256,
): BuiltManifest {
  const expiration = expirationOf(lifetime);
  const plan = planChunks(payload, lifetime, hash);
  const { run, round, base, codec, examples, steps, prev } = own;
  const isInside = payload.length <= CHUNK_BYTES;
  const draft = manifest.build(
    {
      ...{ run, round, base, codec, examples, steps, prev },
      scope: [run, scopeOf(run, round)],
      x: plan.root,
      root: plan.root,
      bytes: plan.bytes,
      hash: toHex(hash(payload)),
      payload: isInside ? toBase64(payload) : undefined,
      expiration,
    },
    lifetime.createdAt,
  );
  const chunks = isInside ? undefined : plan;
  return { draft, chunks, eventBytes: signedEventBytes(draft) };
}

const scopeOf = (run: string, round: number): string => `${run}/${round}`;

/** What to ask relays for: the manifests of a run, or of one of its rounds. */
export const manifestFilter = (run: string, round?: number): ReturnType<typeof manifest.filter> =>
  manifest.filter({ scope: [round === undefined ? run : scopeOf(run, round)] });

/** The manifest inside a verified event, or why it does not count. The payload, if any, is opened last. */
export function toManifest(
  event: SignedEvent,
  context: ManifestContext,
  hash: Sha256 = sha256,
): Judged<Manifest> {
  const parsed = manifest.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const said = parsed.value;
  const rejected = judgeClaim(event, { run: said.run, worker: event.pubkey }, context);
  if (rejected !== undefined) return rejected;
  if (context.round !== undefined && said.round !== context.round) {
    return reject(event, 'wrong-round', `round ${said.round}, not ${context.round}`);
  }
  if (context.checkBase && said.base !== context.base) {
    return reject(event, 'base-mismatch', `started from ${said.base}, we from ${context.base}`);
  }
  if (said.bytes > context.maxPayloadBytes) {
    const limit = context.maxPayloadBytes;
    return reject(event, 'too-large', `a payload of ${said.bytes} bytes, over ${limit}`);
  }
  const { run, round, base, codec, examples, steps, prev, root, bytes } = said;
  const found: Manifest = {
    ...{ run, round, base, codec, examples, steps, prev, root, bytes },
    worker: event.pubkey,
    eventId: event.id,
    hash: said.hash,
    payload: undefined,
    createdAt: event.created_at,
    eventBytes: utf8(JSON.stringify(event)).length,
  };
  if (said.payload === undefined) return accept(found);
  const payload = fromBase64(said.payload);
  if (payload === undefined) return reject(event, 'malformed', 'not canonical base64');
  if (!isPayload(payload, found, hash)) {
    return reject(event, 'malformed', `the payload is not of root ${root}`);
  }
  const untrue = judgePayload(found, payload, hash);
  return untrue === undefined ? accept({ ...found, payload }) : { ok: false, rejection: untrue };
}

/** Why an assembled payload is not what its manifest says: its author signed a root and a hash that differ. */
export function judgePayload(
  { worker, hash: said }: Manifest,
  payload: Uint8Array,
  hash: Sha256 = sha256,
): Rejection | undefined {
  const found = toHex(hash(payload));
  if (found === said) return undefined;
  return { reason: 'malformed', worker, detail: `the payload hashes to ${found}, not ${said}` };
}
