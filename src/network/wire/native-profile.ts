/**
 * Profile `nostrain/1`, the sending side: a manifest (7810) per round with its payload inside or in chunks (7811), and
 * presence (37811). `manifests.ts` reads manifests.
 */
import { INSIDE_BYTES, manifest } from '../../../kinds/manifest.ts';
import { presence } from '../../../kinds/presence.ts';
import { toHex } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import type { Heartbeat } from '../../run/contribution.ts';
import { type FeatureSet, noFeatures, withFeatures } from '../../run/spec/features.ts';
import { Attachments } from '../attachments/attachments.ts';
import {
  chunkTree,
  cutParts,
  type ErasureCoded,
  erasureOf,
  expirationOf,
  type Lifetime,
  planChunks,
} from '../chunks/payload.ts';
import type { ErasureCode } from '../chunks/reed-solomon.ts';
import { type EventDraft, type SignedEvent, signedEventBytes } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { Sending } from '../transport/delivery.ts';
import { insideOf } from './dense-text.ts';
import { accept, type ClaimContext, type Judged, judgeClaim, reject } from './judged.ts';
import {
  type LocalManifest,
  type LocalUpdate,
  type Manifest,
  manifestFilter,
  manifestOf,
  manifestScope,
  openReader,
  readManifest,
  roundIn,
} from './manifests.ts';
import { createPacker } from './packer.ts';
import type { Profile, ProfileOptions, Sealed } from './wire.ts';

/** How long relays are asked to keep payloads. */
const KEPT_SECONDS = 7 * 86_400;
/** Maximum manifests to query to find the current round of a run. */
const LATEST = 20;

export function createNativeProfile(options: ProfileOptions): Profile {
  const { run, signer, clock, erasure, sha256, signWorked, features = noFeatures } = options;
  const packer = createPacker(options);
  const attachments = new Attachments(options);
  const sending = createNativeSending(options, attachments);
  return {
    heartbeatFilter: { kinds: [presence.kind], '#s': [run] },
    latestFilter: { ...manifestFilter(run), limit: LATEST },
    roundOf: roundIn,
    capabilities: ['manifest'],
    gradientsAreHeartbeats: true,
    buildHeartbeat: ({ features: fields, ...heartbeat }) =>
      buildPresence(run, { ...heartbeat, ...withFeatures(named(fields, features)) }),
    readHeartbeat: (event) => toPresence(event, { run, nowSeconds: clock.now() / 1000 }, features),
    async seal({ delta, assignment, features: values, ...find }) {
      const context = { round: find.round, worker: signer.publicKey, assignment };
      const { payload, codec, sent } = await packer.packInTurns(delta, context);
      const createdAt = Math.floor(clock.now() / 1000);
      const packing = { createdAt, expiresAt: createdAt + KEPT_SECONDS, erasure };
      const added = withFeatures(named(values, features));
      const fields = { run, codec, roster: assignment.digest, ...find, ...added };
      const { draft, of, eventBytes } = buildManifest(fields, payload, packing, sha256);
      const event = await signWorked(draft);
      const beside = payload.length <= INSIDE_BYTES ? undefined : payload;
      const sealed = { event, payload: beside, eventBytes };
      sending.made({ sealed, manifest: manifestOf(event, { ...fields, ...of }), sent });
      return { ...sealed, sent, payloadBytes: payload.length };
    },
    open(sealed, context) {
      const update = sending.find(sealed.event.id) ?? localUpdate(sealed, options);
      const { codec, round, roster, payload: inside } = update.manifest;
      const isSameRound = round === context.round && roster === context.assignment.digest;
      if (update.sent && isSameRound) return update.sent;
      const payload = sealed.payload ?? inside!;
      const opened = packer.open(payload, codec, { ...context, worker: signer.publicKey });
      if (!opened.ok) throw new TypeError(`not a payload of this worker: ${opened.issue.message}`);
      return opened.value;
    },
    send: sending.send,
    openRound: (request) =>
      openReader(request, options, { packer, attachments, localUpdate: sending.find }),
    close() {
      sending.close();
      attachments.close();
    },
  };
}

/** Returns the values of features that the run names. */
function named<T extends object>(fields: T | undefined, { names }: FeatureSet): T | undefined {
  const kept = Object.entries(fields ?? {}).filter(([name]) => names.includes(name));
  return fields && (Object.fromEntries(kept) as T);
}

/** Reads an update that an earlier process sealed. Throws a TypeError if it is not valid. */
function localUpdate(sealed: Sealed, { sha256, features }: ProfileOptions): LocalUpdate {
  const read = readManifest(sealed.event, sha256, features);
  if (!read.ok) throw new TypeError(`not a manifest of this worker: ${read.rejection.detail}`);
  return { sealed, manifest: read.value };
}

/**
 * Maximum uploads at once; another one aborts the oldest. So an upload in chunks may continue while the next round is
 * trained, but no longer; single events may take longer.
 */
const UPLOADS_IN_CHUNKS = 2;
const UPLOADS_WHOLE = 16;

function createNativeSending(options: ProfileOptions, attachments: Attachments) {
  const { signer } = options;
  const inChunks = createUploads(UPLOADS_IN_CHUNKS);
  const whole = createUploads(UPLOADS_WHOLE);
  let last: LocalUpdate | undefined;
  const find = (eventId: string) => (last?.sealed.event.id === eventId ? last : undefined);

  return {
    /** Remembers an update that was just sealed. */
    made(update: LocalUpdate): void {
      last = update;
    },
    send(sealed: Sealed): Sending {
      const { event, payload } = sealed;
      const update = find(event.id) ?? localUpdate(sealed, options);
      // an older update may be resent to a relay that has lost it
      if (last === undefined || update.manifest.round >= last.manifest.round) last = update;
      const { created_at: createdAt } = event;
      const attached = payload ? [{ payload, erasure: erasureOf(update.manifest) }] : [];
      return attachments.publish(event, attached, {
        sign: (draft) => signer.sign(draft),
        lifetime: { createdAt, expiresAt: createdAt + KEPT_SECONDS },
        signal: (payload ? inChunks : whole).begin(),
      });
    },
    /** Returns the last update that was sealed or sent, if its event has this id. */
    find,
    close(): void {
      inChunks.close();
      whole.close();
    },
  };
}

function createUploads(most: number) {
  let open: readonly AbortController[] = [];
  return {
    begin(): AbortSignal {
      const upload = new AbortController();
      const all = [...open, upload];
      for (const old of all.slice(0, -most)) old.abort(new Error('later rounds began'));
      open = all.slice(-most);
      return upload.signal;
    },
    close() {
      for (const upload of open) upload.abort(new Error('closed'));
    },
  };
}

export interface BuiltManifest {
  readonly draft: EventDraft;
  /** Manifest fields that describe the payload. */
  readonly of: ErasureCoded & Pick<Manifest, 'hash'>;
  /** Bytes of all its signed events as JSON: the manifest, and the chunks sent before it. */
  readonly eventBytes: number;
}

/** How a payload is packed into events. */
export interface ManifestPacking extends Lifetime {
  /** Erasure code of a payload in chunks, one shard per relay; without it each relay gets the whole payload. */
  readonly erasure?: ErasureCode | undefined;
}

/** Returns an unsigned manifest of a payload. If the payload is not inside, the caller must send its chunks first. */
export function buildManifest(
  find: LocalManifest,
  payload: Uint8Array,
  packing: ManifestPacking,
  hash: Sha256 = sha256,
): BuiltManifest {
  const expiration = expirationOf(packing);
  const { root, bytes } = chunkTree(payload, hash);
  const { run, round } = find;
  const isInside = payload.length <= INSIDE_BYTES;
  const erasure = isInside ? undefined : packing.erasure;
  const plans = isInside
    ? []
    : cutParts(payload, erasure).map((part) => planChunks(part, packing, hash));
  const shards = erasure && { need: erasure.data, shards: plans.map((plan) => plan.root) };
  const of = { root, bytes, hash: toHex(hash(payload)), ...shards };
  const draft = manifest.build(
    {
      ...find,
      ...of,
      scope: [run, manifestScope(run, round)],
      x: root,
      expiration,
      ...insideOf(payload),
    },
    packing.createdAt,
  );
  let eventBytes = signedEventBytes(draft);
  for (const plan of plans) {
    for (let i = 0; i < plan.count; i++) eventBytes += signedEventBytes(plan.draft(i));
  }
  return { draft, of, eventBytes };
}

/** Relays may delete a presence after this many intervals, so that a stopped run leaves nothing behind. */
const KEPT_INTERVALS = 10;
/** Maximum cohort in a presence event; a larger one is omitted, since the event would be too large for relays. */
const MOST_NAMED = 512;

/** Returns the heartbeat of a verified event, or why it does not count. */
export function toPresence(
  event: SignedEvent,
  context: ClaimContext,
  features: FeatureSet = noFeatures,
): Judged<Heartbeat> {
  const parsed = presence.parse(event);
  if (!parsed.ok) return reject(event, 'malformed', parsed.issue.message);
  const fields = parsed.value;
  const worker = event.pubkey;
  const rejected = judgeClaim(event, { run: fields.run, worker }, context);
  if (rejected !== undefined) return rejected;
  const added = features.read('heartbeat', fields.features);
  if (!added.ok) return reject(event, 'malformed', `${added.issue.at}: ${added.issue.message}`);
  return accept({
    worker,
    ...withFeatures(added.value),
    ...(fields.name !== undefined && { name: fields.name }),
    round: fields.round,
    intervalSeconds: fields.interval,
    examples: fields.examples,
    capabilities: fields.capabilities ?? [],
    relays: fields.relays ?? [],
    digest: fields.base,
    cohort: fields.cohort,
    leaving: fields.status === 'leaving',
    ...(fields.settings !== undefined && {
      fingerprint: {
        settings: fields.settings,
        nonDefault: fields.asked ?? [],
        shard: fields.shard ?? '',
      },
    }),
    createdAt: event.created_at,
  });
}

/** Returns an unsigned presence event with the fields and the date of a heartbeat. */
export function buildPresence(run: string, heartbeat: Heartbeat): EventDraft {
  const { capabilities, relays, cohort = [], createdAt, intervalSeconds } = heartbeat;
  const { fingerprint } = heartbeat;
  return presence.build(
    {
      run,
      features: heartbeat.features,
      slot: run,
      scope: [run],
      name: heartbeat.name,
      round: heartbeat.round,
      interval: intervalSeconds,
      examples: heartbeat.examples,
      capabilities,
      relays,
      base: heartbeat.digest,
      cohort: cohort.length <= MOST_NAMED ? cohort : undefined,
      status: heartbeat.leaving ? 'leaving' : undefined,
      ...(fingerprint && {
        settings: fingerprint.settings,
        asked: fingerprint.nonDefault,
        shard: fingerprint.shard === '' ? undefined : fingerprint.shard,
      }),
      expiration: createdAt + KEPT_INTERVALS * intervalSeconds,
    },
    createdAt,
  );
}
