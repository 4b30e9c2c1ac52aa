/** Profile `nostrain/1`: a manifest (7810) per round, its payload inside or in chunks (7811), and presence (37811). */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { manifest } from '../../../kinds/manifest.ts';
import { presence } from '../../../kinds/presence.ts';
import type { Contribution } from '../../run/contribution.ts';
import { tierSaid, trainedRings } from '../../run/helpers.ts';
import { type FeatureSet, noFeatures, withFeatures } from '../../run/spec/features.ts';
import type { PartialVector } from '../../tensor/partial-vector.ts';
import { Attachments } from '../attachments/attachments.ts';
import type { Pull } from '../attachments/pull.ts';
import { stripeOf } from '../chunks/payload.ts';
import type { SignedEvent } from '../event.ts';
import type { Sending } from '../transport/delivery.ts';
import { accept, type Judged, refusal } from './judged.ts';
import {
  buildManifest,
  buildPresence,
  judgeManifest,
  judgePayload,
  type Manifest,
  manifestFilter,
  manifestOf,
  readManifest,
  toManifest,
  toPresence,
} from './manifests.ts';
import { contributionOf, createPacker, openContribution, type Packer } from './packer.ts';
import {
  contextOf,
  type GradientReading,
  type Profile,
  type ProfileOptions,
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
  const attachments = new Attachments(options);
  const sending = createNativeSending(options, attachments);
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
      const { draft, of, eventBytes } = buildManifest(said, payload, packing, sha256);
      const event = await signWorked(draft);
      const beside = payload.length <= CHUNK_BYTES ? undefined : payload;
      const sealed = { event, payload: beside, eventBytes };
      sending.made({ sealed, said: manifestOf(event, { ...said, ...of }), sent });
      return { ...sealed, sent, payloadBytes: payload.length };
    },
    open(sealed, place) {
      const { said, sent } = sending.own(sealed.event.id) ?? ownUpdate(sealed, options);
      if (sent) return sent;
      const payload = sealed.payload ?? said.payload!;
      const opened = packer.open(payload, said.codec, { ...place, worker: signer.publicKey });
      if (!opened.ok) throw new TypeError(`not a payload of ours: ${opened.issue.message}`);
      return opened.value;
    },
    send: sending.send,
    openRound: (request) => openReader(request, options, { packer, sending, attachments }),
    close() {
      sending.close();
      attachments.close();
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
    attachments,
  }: {
    readonly packer: Packer;
    readonly sending: NativeSending;
    readonly attachments: Attachments;
  },
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
    read(event, round): GradientReading {
      const context = contextOf(request, round, clock.now());
      const limits = { run, maxPayloadBytes: maxContainerBytes, ...(features && { features }) };
      const own = sending.own(event.id);
      const judged = own
        ? (judgeManifest(event, own.said, { ...context, ...limits }) ?? accept(own.said))
        : toManifest(event, { ...context, ...limits }, sha256);
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
      if (own?.sent) {
        const { payload, eventBytes } = own.sealed;
        const all = payload ? { ...said, eventBytes } : said;
        return accept(contributionOf(all, own.sent, said.bytes));
      }
      if (said.payload) return open(said, said.payload);
      const beside = own?.sealed.payload;
      if (own && beside) return open({ ...said, eventBytes: own.sealed.eventBytes }, beside);
      const { done, progress, stop } = attachments.pull(said, { signal: over.signal });
      return { worker: said.worker, done: pulled(said, done, open), progress, stop };
    },
    close: () => over.abort(new Error('closed')),
  };
}

/** How many rings, from the first on, both workers hold alike; a refusal where it has more than there are. */
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

/** An update of this worker as values; what was sealed before a restart is decoded when it is asked for. */
interface OwnUpdate {
  readonly sealed: Sealed;
  readonly said: Manifest;
  readonly sent?: PartialVector;
}

/** An update of a process before this one. Throws a `TypeError` when it is not one of ours. */
function ownUpdate(sealed: Sealed, { sha256, features }: ProfileOptions): OwnUpdate {
  const read = readManifest(sealed.event, sha256, features);
  if (!read.ok) throw new TypeError(`not a manifest of ours: ${read.rejection.detail}`);
  return { sealed, said: read.value };
}

type NativeSending = ReturnType<typeof createNativeSending>;

/** Uploads in chunks go on while the next round is trained and no longer; whole ones for longer. */
const UPLOADS_IN_CHUNKS = 2;
const UPLOADS_WHOLE = 16;

function createNativeSending(options: ProfileOptions, attachments: Attachments) {
  const { signer } = options;
  const inChunks = createUploads(UPLOADS_IN_CHUNKS);
  const whole = createUploads(UPLOADS_WHOLE);
  let last: OwnUpdate | undefined;
  const own = (eventId: string) => (last?.sealed.event.id === eventId ? last : undefined);

  return {
    /** Remembers an update that was made just now. */
    made(update: OwnUpdate): void {
      last = update;
    },
    send(sealed: Sealed): Sending {
      const { event, payload } = sealed;
      const update = own(event.id) ?? ownUpdate(sealed, options);
      // an older one may be sent again to a relay that has lost it
      if (last === undefined || update.said.round >= last.said.round) last = update;
      const { created_at: createdAt } = event;
      const attached = payload ? [{ payload, stripe: stripeOf(update.said) }] : [];
      return attachments.publish(event, attached, {
        sign: (draft) => signer.sign(draft),
        lifetime: { createdAt, expiresAt: createdAt + KEPT_SECONDS },
        signal: (payload ? inChunks : whole).begin(),
      });
    },
    /** The last update that was made or sent, when it is the event of this id. */
    own,
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
