/** Reads manifest events: which count for a round, their payloads wherever they are, the contributions inside. */
import { manifest } from '../../../kinds/manifest.ts';
import { fromBase64, toHex, utf8 } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import type { ChunkAssignment, Contribution, Rejection } from '../../run/contribution.ts';
import { reportedTier, trainedSlices } from '../../run/helpers.ts';
import { type Digest, roundName, roundNumber, type WorkerId } from '../../run/ids.ts';
import {
  type FeatureSet,
  type FeatureValues,
  noFeatures,
  withFeatures,
} from '../../run/spec/features.ts';
import type { PartialVector } from '../../tensor/partial-vector.ts';
import type { Attachments } from '../attachments/attachments.ts';
import type { Pull } from '../attachments/pull.ts';
import { type ErasureCoded, isPayload } from '../chunks/payload.ts';
import type { SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import { accept, codecReason, type Judged, judgeClaim, refusal, reject } from './judged.ts';
import type { Packer } from './packer.ts';
import {
  contextOf,
  type GradientReading,
  type ProfileOptions,
  type RoundReader,
  type RoundRequest,
  type Sealed,
} from './wire.ts';

/** What a worker says of its own payload. */
export interface LocalManifest {
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
export interface Manifest extends LocalManifest, ErasureCoded {
  readonly worker: WorkerId;
  readonly eventId: string;
  readonly hash: Digest;
  /** The payload itself, checked, when it is small enough to ride inside. */
  readonly payload: Uint8Array | undefined;
  readonly createdAt: number;
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
  readonly features?: FeatureSet;
}

/** Shards may be so many times what is needed, and memory with them. */
const MOST_EXPANSION = 4;

export const manifestScope = (run: string, round: number): string => `${run}/${round}`;

/** What to ask relays for: the manifests of a run, or of one of its rounds. */
export const manifestFilter = (run: string, round?: number): ReturnType<typeof manifest.filter> =>
  manifest.filter({ scope: [round === undefined ? run : manifestScope(run, round)] });

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
function judgeManifest(
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

type ManifestContent = Extract<ReturnType<typeof manifest.parse>, { readonly ok: true }>['value'];

function openManifest(
  event: SignedEvent,
  said: ManifestContent,
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
  said: LocalManifest & ErasureCoded & Pick<Manifest, 'hash'>,
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

/** An update of this worker as values; what was sealed before a restart is decoded when it is asked for. */
export interface LocalUpdate {
  readonly sealed: Sealed;
  readonly said: Manifest;
  readonly sent?: PartialVector;
}

interface ReaderParts {
  readonly packer: Packer;
  readonly attachments: Attachments;
  /** The update of this worker whose event has that id, where it is the last one. */
  ownUpdate(eventId: string): LocalUpdate | undefined;
}

/** Reads the contributions of a round: manifests that count, with their payloads from wherever these are. */
export function openReader(
  request: RoundRequest,
  options: ProfileOptions,
  { packer, attachments, ownUpdate }: ReaderParts,
): RoundReader {
  const { run, clock, sha256, maxContainerBytes, features, sliceEnds, helpers } = options;
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
      const own = ownUpdate(event.id);
      const judged = own
        ? (judgeManifest(event, own.said, { ...context, ...limits }) ?? accept(own.said))
        : toManifest(event, { ...context, ...limits }, sha256);
      if (!judged.ok) return judged;
      const said = judged.value;
      if (said.roster !== assignment.digest) {
        const ours = assignment.digest ?? 'no roster';
        return refusal(said.worker, 'other-roster', `made for ${said.roster}, ours is ${ours}`);
      }
      const agreed = sliceEnds && agreedSliceCount(said, request, sliceEnds.length);
      if (agreed && !agreed.ok) return agreed;
      const held = said.features?.widths?.rings.length ?? 0;
      const tier = reportedTier(said.features?.widths) ?? 0;
      if (helpers && !trainedSlices(helpers, { tier, held, round: said.round })) {
        return refusal(said.worker, 'malformed', `${held} slices, which tier ${tier} has not`);
      }
      const open: Open = (opened, payload) =>
        openContribution(opened, payload, packer, assignment, agreed?.value);
      const beside = own?.sealed.payload;
      const all = own && beside ? { ...said, eventBytes: own.sealed.eventBytes } : said;
      if (own?.sent) return accept(contributionOf(all, own.sent, said.bytes));
      const payload = said.payload ?? beside;
      if (payload) return open(all, payload);
      const { done, progress, stop } = attachments.pull(said, { signal: over.signal });
      return { worker: said.worker, done: pulled(said, done, open), progress, stop };
    },
    close: () => over.abort(new Error('closed')),
  };
}

/** How many slices, from the first on, both workers hold alike; a refusal where it has more than there are. */
function agreedSliceCount(
  { worker, features }: Manifest,
  { sliceDigests = [], anyBase }: RoundRequest,
  most: number,
): Judged<number> {
  const theirs = features?.widths?.rings ?? [];
  if (theirs.length === 0 || theirs.length > most) {
    return refusal(worker, 'malformed', `${theirs.length} slices of a model that has ${most}`);
  }
  const at = sliceDigests.findIndex((digest, i) => theirs[i] !== undefined && theirs[i] !== digest);
  return accept(anyBase || at < 0 ? theirs.length : at);
}

/** The round an event names; undefined where it is no manifest. */
export function roundIn(event: SignedEvent): number | undefined {
  const said = manifest.parse(event);
  return said.ok ? said.value.round : undefined;
}

/** The contribution inside a payload that is what its manifest names, or why it does not count. */
export function openContribution(
  said: Manifest,
  payload: Uint8Array,
  packer: Packer,
  assignment: ChunkAssignment,
  agreed?: number,
): Judged<Contribution> {
  const { worker, round } = said;
  const context = { round, worker, assignment, widths: said.features?.widths, agreed };
  const opened = packer.open(payload, said.codec, context);
  if (!opened.ok) {
    const { code, at, message } = opened.issue;
    return refusal(worker, codecReason(code), `${code} at ${at}: ${message}`);
  }
  return accept(contributionOf(said, opened.value, payload.length));
}

/** The contribution that a manifest names, once its payload is decoded. */
const contributionOf = (
  { worker, eventId, round, base, examples, steps, createdAt, eventBytes }: Manifest,
  delta: PartialVector,
  payloadBytes: number,
): Contribution => ({
  worker,
  eventId,
  round,
  base,
  examples,
  steps,
  createdAt,
  eventBytes,
  delta,
  payloadBytes,
});
