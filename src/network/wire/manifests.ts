/** Manifest events to commitments and back, presence events to heartbeats and back. */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { manifest } from '../../../kinds/manifest.ts';
import { presence } from '../../../kinds/presence.ts';
import { fromBase64, toBase64, toHex, utf8 } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import type { Heartbeat, Rejection } from '../../run/contribution.ts';
import { type Digest, roundName, roundNumber, type WorkerId } from '../../run/ids.ts';
import {
  type FeatureSet,
  type FeatureValues,
  noFeatures,
  withFeatures,
} from '../../run/spec/features.ts';
import {
  chunkTree,
  cutParts,
  expirationOf,
  isPayload,
  type Lifetime,
  planChunks,
  type Striped,
} from '../chunks/payload.ts';
import type { Stripe } from '../chunks/reed-solomon.ts';
import { type EventDraft, type SignedEvent, signedEventBytes } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import { accept, type ClaimContext, type Judged, judgeClaim, reject } from './judged.ts';

/** What a worker says of its own payload. */
export interface OwnManifest {
  readonly run: string;
  readonly round: number;
  /** Digest of the outcome before, in a certified run. */
  readonly parent?: Digest | undefined;
  /** Digest of the state the worker started the round from; its model root in a certified run. */
  readonly base: Digest;
  /** How the payload is packed, for example `ternary`. */
  readonly codec: string;
  /** Digest of the roster that owns the parameters; absent where every worker sends all of them. */
  readonly roster?: Digest | undefined;
  readonly examples: number;
  readonly steps: number;
  /** Id of the worker's last manifest; absent in its first. */
  readonly prev?: string | undefined;
  /** What features of a certified run add. */
  readonly features?: FeatureValues<'manifest'>;
}

/** A manifest that came from a relay. */
export interface Manifest extends OwnManifest, Striped {
  readonly worker: WorkerId;
  readonly eventId: string;
  readonly hash: Digest;
  /** The payload itself, checked, when it is small enough to ride inside. */
  readonly payload: Uint8Array | undefined;
  readonly createdAt: number;
  readonly eventBytes: number;
}

export interface BuiltManifest {
  readonly draft: EventDraft;
  /** What the manifest says of the payload. */
  readonly of: Striped & Pick<Manifest, 'hash'>;
  /** JSON of all its events once they are signed: the manifest, and the chunks that go before it. */
  readonly eventBytes: number;
}

/** How a payload is packed into events. */
export interface ManifestPacking extends Lifetime {
  /** Over how many relays a payload in chunks is striped; whole without it. */
  readonly stripe?: Stripe | undefined;
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
  readonly features?: FeatureSet;
}

/** An unsigned manifest of a payload. The chunks of one that does not ride inside are the caller's to send first. */
export function buildManifest(
  own: OwnManifest,
  payload: Uint8Array,
  packing: ManifestPacking,
  hash: Sha256 = sha256,
): BuiltManifest {
  const expiration = expirationOf(packing);
  const { root, bytes } = chunkTree(payload, hash);
  const { run, round } = own;
  const isInside = payload.length <= CHUNK_BYTES;
  const stripe = isInside ? undefined : packing.stripe;
  const plans = isInside
    ? []
    : cutParts(payload, stripe).map((part) => planChunks(part, packing, hash));
  const shards = stripe && { need: stripe.data, shards: plans.map((plan) => plan.root) };
  const of = { root, bytes, hash: toHex(hash(payload)), ...shards };
  const { features, ...said } = own;
  const draft = manifest.build(
    {
      ...said,
      ...of,
      ...withFeatures(features),
      scope: [run, scopeOf(run, round)],
      x: root,
      expiration,
      payload: isInside ? toBase64(payload) : undefined,
    },
    packing.createdAt,
  );
  let eventBytes = signedEventBytes(draft);
  for (const plan of plans) {
    for (let i = 0; i < plan.count; i++) eventBytes += signedEventBytes(plan.draft(i));
  }
  return { draft, of, eventBytes };
}

/** Shards may be so many times what is needed, and memory with them. */
const MOST_EXPANSION = 4;

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
  const rejected = judgeManifest(event, parsed.value, context);
  return rejected ?? openManifest(event, parsed.value, hash, context.features ?? noFeatures);
}

/** Why a manifest that was read does not count here; undefined where it does. */
export function judgeManifest(
  event: SignedEvent,
  said: Pick<Manifest, 'run' | 'round' | 'base' | 'bytes'>,
  context: ManifestContext,
): Extract<Judged<Manifest>, { readonly ok: false }> | undefined {
  const rejected = judgeClaim(event, { run: said.run, worker: event.pubkey }, context);
  if (rejected !== undefined) return rejected;
  if (context.round !== undefined && said.round !== context.round) {
    return reject(
      event,
      'wrong-round',
      `${roundName(said.round)}, not ${roundNumber(context.round)}`,
    );
  }
  if (context.checkBase && said.base !== context.base) {
    return reject(event, 'base-mismatch', `started from ${said.base}, we from ${context.base}`);
  }
  if (said.bytes > context.maxPayloadBytes) {
    const limit = context.maxPayloadBytes;
    return reject(event, 'too-large', `a payload of ${said.bytes} bytes, over ${limit}`);
  }
  return undefined;
}

/** The same by form alone, without any round to hold it against. */
export function readManifest(
  event: SignedEvent,
  hash: Sha256 = sha256,
  features: FeatureSet = noFeatures,
): Judged<Manifest> {
  const parsed = manifest.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  return openManifest(event, parsed.value, hash, features);
}

type Said = Extract<ReturnType<typeof manifest.parse>, { readonly ok: true }>['value'];

function openManifest(
  event: SignedEvent,
  said: Said,
  hash: Sha256,
  features: FeatureSet,
): Judged<Manifest> {
  const added = features.read('manifest', said.features);
  if (!added.ok) return reject(event, 'malformed', `${added.issue.at}: ${added.issue.message}`);
  const { payload: inside, features: _, scope, x, expiration, ...told } = said;
  const { need, shards } = told;
  if ((shards?.length ?? 1) > MOST_EXPANSION * (need ?? 1)) {
    return reject(event, 'too-large', `${shards?.length} shards where ${need} are enough`);
  }
  const found = manifestOf(event, { ...told, ...withFeatures(added.value) });
  if (inside === undefined) return accept(found);
  const payload = fromBase64(inside);
  if (payload === undefined) return reject(event, 'malformed', 'not canonical base64');
  if (!isPayload(payload, found, hash)) {
    return reject(event, 'malformed', `the payload is not of root ${said.root}`);
  }
  const untrue = judgePayload(found, payload, hash);
  return untrue === undefined ? accept({ ...found, payload }) : { ok: false, rejection: untrue };
}

/** A manifest whose payload is not here, with what its event tells of it. */
export const manifestOf = (
  event: SignedEvent,
  said: OwnManifest & Striped & Pick<Manifest, 'hash'>,
): Manifest => ({
  ...said,
  worker: event.pubkey,
  eventId: event.id,
  payload: undefined,
  createdAt: event.created_at,
  eventBytes: utf8(JSON.stringify(event)).length,
});

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

/** Relays may forget a presence after so many intervals: a run that stopped leaves nothing behind. */
const KEPT_INTERVALS = 10;
/** A larger cohort is left out: the event would be too large for relays. */
const MOST_NAMED = 512;

/** The heartbeat inside a verified event, or why it does not count. */
export function toPresence(
  event: SignedEvent,
  context: ClaimContext,
  features: FeatureSet = noFeatures,
): Judged<Heartbeat> {
  const parsed = presence.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const said = parsed.value;
  const worker = event.pubkey;
  const rejected = judgeClaim(event, { run: said.run, worker }, context);
  if (rejected !== undefined) return rejected;
  const added = features.read('heartbeat', said.features);
  if (!added.ok) return reject(event, 'malformed', `${added.issue.at}: ${added.issue.message}`);
  return accept({
    worker,
    ...withFeatures(added.value),
    round: said.round,
    intervalSeconds: said.interval,
    examples: said.examples,
    capabilities: said.capabilities ?? [],
    relays: said.relays ?? [],
    digest: said.base,
    cohort: said.cohort,
    leaving: said.status === 'leaving',
    ...(said.settings !== undefined && {
      terms: { settings: said.settings, asked: said.asked ?? [], shard: said.shard ?? '' },
    }),
    createdAt: event.created_at,
  });
}

/** An unsigned presence event saying what the heartbeat says, dated as the heartbeat is. */
export function buildPresence(run: string, heartbeat: Heartbeat): EventDraft {
  const { capabilities, relays, cohort = [], createdAt, intervalSeconds } = heartbeat;
  const { terms } = heartbeat;
  const isNamed = cohort.length > 0 && cohort.length <= MOST_NAMED;
  return presence.build(
    {
      run,
      ...withFeatures(heartbeat.features),
      slot: run,
      scope: [run],
      round: heartbeat.round,
      interval: intervalSeconds,
      examples: heartbeat.examples,
      capabilities: capabilities.length > 0 ? capabilities : undefined,
      relays: relays.length > 0 ? relays : undefined,
      base: heartbeat.digest,
      cohort: isNamed ? cohort : undefined,
      status: heartbeat.leaving ? 'leaving' : undefined,
      ...(terms && {
        settings: terms.settings,
        asked: terms.asked.length > 0 ? terms.asked : undefined,
        shard: terms.shard === '' ? undefined : terms.shard,
      }),
      expiration: createdAt + KEPT_INTERVALS * intervalSeconds,
    },
    createdAt,
  );
}
