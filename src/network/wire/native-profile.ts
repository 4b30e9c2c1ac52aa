/**
 * Profile `nostrain/1`: a manifest (7810) per worker and round, the payload inside it or in chunks (7811) that go before it, presence (37811)
 * between them. Nothing here is larger than 64 KiB, whatever the model. A manifest is sent as soon as the relays together hold its payload.
 */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { manifest } from '../../../kinds/manifest.ts';
import { presence } from '../../../kinds/presence.ts';
import { fromBase64 } from '../../base/bytes.ts';
import type { Contribution } from '../../run/contribution.ts';
import { tierSaid, trainedRings } from '../../run/helpers.ts';
import { type FeatureSet, noFeatures, withFeatures } from '../../run/spec/features.ts';
import { publishWithAttachments } from '../attachments/publish.ts';
import { createPuller, type Pull, type Puller } from '../attachments/pull.ts';
import { stripeOf } from '../chunks/payload.ts';
import type { SignedEvent } from '../event.ts';
import { type Sending, watchOutcomes } from '../transport/delivery.ts';
import { accept, type Judged, refusal } from './judged.ts';
import {
  buildManifest,
  buildPresence,
  judgePayload,
  type Manifest,
  manifestFilter,
  toManifest,
  toPresence,
} from './manifests.ts';
import { createPacker, openContribution, type Packer } from './packer.ts';
import {
  contextOf,
  type Profile,
  type ProfileOptions,
  type Reading,
  type RoundReader,
  type RoundRequest,
  type Sealed,
} from './wire.ts';

/** How long relays are asked to keep payloads. */
const KEPT_SECONDS = 7 * 86_400;
/** Manifests that show where a run is. */
const LATEST = 20;

export function createNativeProfile(options: ProfileOptions): Profile {
  const { run, signer, clock, stripe, sha256, signWorked, features = noFeatures } = options;
  const packer = createPacker(options);
  const sending = createNativeSending(options);
  const puller = createPuller(options);
  return {
    heartbeatFilter: { kinds: [presence.kind], '#s': [run] },
    latestFilter: { ...manifestFilter(run), limit: LATEST },
    roundOf: roundIn,
    capabilities: ['manifest'],
    gradientsAreHeartbeats: true,
    buildHeartbeat: ({ features: said, ...heartbeat }) =>
      buildPresence(run, { ...heartbeat, ...withFeatures(named(said, features)) }),
    readHeartbeat: (event) => toPresence(event, { run, nowSeconds: clock.now() / 1000 }, features),
    async seal({ delta, assignment, features: told, ...own }) {
      const place = { round: own.round, worker: signer.publicKey, assignment };
      const { payload, codec, sent } = packer.pack(delta, place);
      const createdAt = Math.floor(clock.now() / 1000);
      const packing = { createdAt, expiresAt: createdAt + KEPT_SECONDS, stripe };
      const added = withFeatures(named(told, features));
      const said = { run, codec, roster: assignment.digest, ...own, ...added };
      const { draft, eventBytes } = buildManifest(said, payload, packing, sha256);
      const event = await signWorked(draft);
      const beside = payload.length <= CHUNK_BYTES ? undefined : payload;
      return { event, payload: beside, sent, payloadBytes: payload.length, eventBytes };
    },
    open({ event, payload }, place) {
      const said = manifest.parse(event);
      const bytes = payload ?? (said.ok ? fromBase64(said.value.payload ?? '') : undefined);
      if (!said.ok || !bytes) throw new TypeError('not a manifest of ours');
      const opened = packer.open(bytes, said.value.codec, { ...place, worker: signer.publicKey });
      if (!opened.ok) throw new TypeError(`not a payload of ours: ${opened.issue.message}`);
      return opened.value;
    },
    send: sending.send,
    openRound: (request) => openReader(request, options, { packer, sending, puller }),
    close() {
      sending.close();
      puller.close();
    },
  };
}

/** What is said for features that the run names. */
function named<T extends object>(said: T | undefined, { names }: FeatureSet): T | undefined {
  const kept = Object.entries(said ?? {}).filter(([name]) => names.includes(name));
  return said && (Object.fromEntries(kept) as T);
}

function roundIn(event: SignedEvent): number | undefined {
  const said = manifest.parse(event);
  return said.ok ? said.value.round : undefined;
}

function openReader(
  request: RoundRequest,
  options: ProfileOptions,
  {
    packer,
    sending,
    puller,
  }: { readonly packer: Packer; readonly sending: NativeSending; readonly puller: Puller },
): RoundReader {
  const { run, clock, sha256, maxContainerBytes, features, ringEnds, helpers } = options;
  const { assignment } = request;
  const over = new AbortController();

  type Open = (said: Manifest, payload: Uint8Array) => Judged<Contribution>;

  async function pulled(
    said: Manifest,
    done: Pull['done'],
    open: Open,
  ): Promise<Judged<Contribution>> {
    const found = await done;
    if (!found) {
      return refusal(said.worker, 'payload-missing', 'its chunks do not make up what it names');
    }
    const untrue = judgePayload(said, found.payload, sha256);
    if (untrue) return { ok: false, rejection: untrue };
    return open({ ...said, eventBytes: said.eventBytes + found.eventBytes }, found.payload);
  }

  return {
    filter: manifestFilter(run, request.anyBase ? undefined : request.round),
    roundOf: roundIn,
    read(event, round): Reading {
      const context = contextOf(request, round, clock.now());
      const limits = { run, maxPayloadBytes: maxContainerBytes, ...(features && { features }) };
      const judged = toManifest(event, { ...context, ...limits }, sha256);
      if (!judged.ok) return judged;
      const said = judged.value;
      if (said.roster !== assignment.digest) {
        const ours = assignment.digest ?? 'no roster';
        return refusal(said.worker, 'other-roster', `made for ${said.roster}, ours is ${ours}`);
      }
      const agreed = ringEnds && agreedRings(said, request, ringEnds.length);
      if (agreed && !agreed.ok) return agreed;
      const held = said.features?.widths?.rings.length ?? 0;
      const tier = tierSaid(said.features?.widths) ?? 0;
      if (helpers && !trainedRings(helpers, { tier, held, round: said.round })) {
        return refusal(said.worker, 'malformed', `${held} rings, which tier ${tier} has not`);
      }
      const open: Open = (opened, payload) =>
        openContribution(opened, payload, packer, assignment, agreed?.value);
      if (said.payload) return open(said, said.payload);
      const own = sending.own(said.eventId);
      if (own?.payload) return open({ ...said, eventBytes: own.eventBytes }, own.payload);
      const { done, progress, stop } = puller.pull(said, { signal: over.signal });
      return { worker: said.worker, done: pulled(said, done, open), progress, stop };
    },
    close: () => over.abort(new Error('closed')),
  };
}

/**
 * How many of the rings that a worker has are such as this one knows, from the first on: a worker of a smaller tier cannot tell of the others,
 * and all must count the same ones. A refusal where it has more than there are.
 */
function agreedRings(
  { worker, features }: Manifest,
  { rings = [], anyBase }: RoundRequest,
  most: number,
): Judged<number> {
  const theirs = features?.widths?.rings ?? [];
  if (theirs.length === 0 || theirs.length > most) {
    return refusal(worker, 'malformed', `${theirs.length} rings of a model that has ${most}`);
  }
  const at = rings.findIndex((ring, i) => theirs[i] !== undefined && theirs[i] !== ring);
  return accept(anyBase || at < 0 ? theirs.length : at);
}

export interface NativeSending {
  send(sealed: Sealed): Sending;
  /** What was sent last, when it is the event of this id. */
  own(eventId: string): Sealed | undefined;
  /** Ends uploads to relays that are still behind. */
  close(): void;
}

/** Chunks go on to slow relays while the next round is trained, and no longer; a manifest that is all there is, for longer. */
const UPLOADS_IN_CHUNKS = 2;
const UPLOADS_WHOLE = 16;

function createNativeSending({ relays, signer, sha256 }: ProfileOptions): NativeSending {
  const inChunks = createUploads(UPLOADS_IN_CHUNKS);
  const whole = createUploads(UPLOADS_WHOLE);
  let last: { readonly id: string; readonly sealed: Sealed } | undefined;

  function sendInChunks(event: SignedEvent, payload: Uint8Array): Sending {
    const said = manifest.parse(event);
    if (!said.ok) throw new TypeError(`not a manifest of ours: ${said.issue.message}`);
    const signal = inChunks.begin();
    const lifetime = { createdAt: event.created_at, expiresAt: said.value.expiration };
    return publishWithAttachments(event, [{ payload, stripe: stripeOf(said.value) }], {
      relays,
      sign: (draft) => signer.sign(draft),
      sha256,
      lifetime,
      signal,
    });
  }

  return {
    send(sealed) {
      const { event } = sealed;
      last = { id: event.id, sealed };
      return sealed.payload
        ? sendInChunks(event, sealed.payload)
        : watchOutcomes(relays.send(event, { signal: whole.begin() }), relays);
    },
    own: (eventId) => (last?.id === eventId ? last.sealed : undefined),
    close() {
      inChunks.close();
      whole.close();
    },
  };
}

/** Signals of the latest uploads; older ones are aborted. */
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
