/**
 * Reads manifest events: judges which count for a round, gets their payloads, and decodes the contributions in them.
 */
import { manifest } from '../../../kinds/manifest.ts';
import { toHex, utf8 } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import type { ChunkAssignment, Contribution, Rejection } from '../../run/contribution.ts';
import { type SliceFeature, trainedSlices } from '../../run/helpers.ts';
import type { Digest } from '../../run/ids.ts';
import { type FeatureSet, noFeatures, withFeatures } from '../../run/spec/features.ts';
import type { PartialVector } from '../../tensor/partial-vector.ts';
import type { Attachments } from '../attachments/attachments.ts';
import type { Pull } from '../attachments/pull.ts';
import { type ErasureCoded, isPayload } from '../chunks/payload.ts';
import type { SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import { payloadInside } from './dense-text.ts';
import {
  accept,
  type ClaimContext,
  codecReason,
  type Judged,
  judgeClaim,
  refusal,
  reject,
} from './judged.ts';
import type { Packer } from './packer.ts';
import {
  contextOf,
  type GradientReading,
  type LocalGradient,
  type ProfileOptions,
  type RoundReader,
  type RoundRequest,
  type Sealed,
} from './wire.ts';

/** Manifest fields that describe a worker's own payload. */
export interface LocalManifest extends Omit<LocalGradient, 'assignment' | 'delta' | 'prev'> {
  readonly run: string;
  /** Packing of the payload, for example `trellis-250`. */
  readonly codec: string;
  /** Digest of the roster that owns the parameters; absent if every worker sends all of them. */
  readonly roster?: Digest | undefined;
  /** Id of the worker's previous manifest; absent in its first. */
  readonly prev?: string | undefined;
}

/** A manifest received from a relay. */
export interface Manifest
  extends LocalManifest,
    ErasureCoded,
    Pick<Contribution, 'worker' | 'eventId' | 'createdAt' | 'eventBytes'> {
  readonly hash: Digest;
  /** The verified payload, if it is inside the event. */
  readonly payload: Uint8Array | undefined;
}

export interface ManifestContext extends ClaimContext {
  readonly maxPayloadBytes: number;
  readonly features?: FeatureSet;
}

/** Maximum ratio of all shards to those needed, which also bounds the memory they take. */
const MOST_EXPANSION = 4;

export const manifestScope = (run: string, round: number): string => `${run}/${round}`;

/** Returns the filter of the manifests of a run, or of one of its rounds. */
export const manifestFilter = (run: string, round?: number): ReturnType<typeof manifest.filter> =>
  manifest.filter({ scope: [round === undefined ? run : manifestScope(run, round)] });

/**
 * Returns the manifest of a verified event, or why it does not count. The payload, if it is inside, is checked last.
 */
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

/** Returns why a parsed manifest does not count; undefined if it does. */
function judgeManifest(
  event: SignedEvent,
  received: Pick<Manifest, 'run' | 'round' | 'base' | 'bytes'>,
  context: ManifestContext,
): Extract<Judged<Manifest>, { readonly ok: false }> | undefined {
  const rejected = judgeClaim(event, { ...received, worker: event.pubkey }, context);
  const limit = context.maxPayloadBytes;
  if (rejected !== undefined || received.bytes <= limit) return rejected;
  return reject(event, 'too-large', `a payload of ${received.bytes} bytes, over ${limit}`);
}

/** Reads a manifest by form alone, without checking it against a round. */
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
  received: ManifestContent,
  hash: Sha256,
  features: FeatureSet,
): Judged<Manifest> {
  const added = features.read('manifest', received.features);
  if (!added.ok) return reject(event, 'malformed', `${added.issue.at}: ${added.issue.message}`);
  const { payload: text, dense, features: _, scope, x, expiration, ...fields } = received;
  const { need, shards } = fields;
  if ((shards?.length ?? 1) > MOST_EXPANSION * (need ?? 1)) {
    return reject(event, 'too-large', `${shards?.length} shards, but ${need} are enough`);
  }
  const actual = manifestOf(event, { ...fields, ...withFeatures(added.value) });
  if (text === undefined && dense === undefined) return accept(actual);
  const payload = payloadInside({ payload: text, dense }, actual.bytes);
  if (payload === undefined) {
    const form = dense === undefined ? 'base64' : 'dense text';
    return reject(event, 'malformed', `not canonical ${form}`);
  }
  if (!isPayload(payload, actual, hash)) {
    return reject(event, 'malformed', `the payload is not of root ${received.root}`);
  }
  const untrue = judgePayload(actual, payload, hash);
  return untrue === undefined ? accept({ ...actual, payload }) : { ok: false, rejection: untrue };
}

/** Builds a manifest without its payload from an event and its fields. */
export const manifestOf = (
  event: SignedEvent,
  fields: LocalManifest & ErasureCoded & Pick<Manifest, 'hash'>,
): Manifest => ({
  ...fields,
  worker: event.pubkey,
  eventId: event.id,
  payload: undefined,
  createdAt: event.created_at,
  eventBytes: utf8(JSON.stringify(event)).length,
});

/**
 * Returns a rejection if an assembled payload differs from its manifest: its author signed a root and a hash that do
 * not match.
 */
export function judgePayload(
  { worker, hash: expected }: Manifest,
  payload: Uint8Array,
  hash: Sha256 = sha256,
): Rejection | undefined {
  const actual = toHex(hash(payload));
  if (actual === expected) return undefined;
  return {
    reason: 'malformed',
    worker,
    detail: `the payload hashes to ${actual}, not ${expected}`,
  };
}

/** An update of this worker as values. One that was sealed before a restart is decoded when it is needed. */
export interface LocalUpdate {
  readonly sealed: Sealed;
  readonly manifest: Manifest;
  readonly sent?: PartialVector;
}

interface ReaderParts {
  readonly packer: Packer;
  readonly attachments: Attachments;
  /** Returns this worker's last update if its event has that id. */
  localUpdate(eventId: string): LocalUpdate | undefined;
}

/** Creates a reader of a round's contributions: manifests that count, with their payloads. */
export function openReader(
  request: RoundRequest,
  options: ProfileOptions,
  { packer, attachments, localUpdate }: ReaderParts,
): RoundReader {
  const { run, clock, sha256, maxContainerBytes, features } = options;
  const { assignment } = request;
  const over = new AbortController();

  type Open = (received: Manifest, payload: Uint8Array) => Judged<Contribution>;

  async function pulled(
    received: Manifest,
    done: Pull['done'],
    open: Open,
  ): Promise<Judged<Contribution>> {
    const actual = await done;
    if (!actual) {
      return refusal(
        received.worker,
        'payload-missing',
        'its chunks do not make up the payload that it names',
      );
    }
    const untrue = judgePayload(received, actual.payload, sha256);
    if (untrue) return { ok: false, rejection: untrue };
    return open(
      { ...received, eventBytes: received.eventBytes + actual.eventBytes },
      actual.payload,
    );
  }

  return {
    filter: manifestFilter(run, request.anyBase ? undefined : request.round),
    roundOf: roundIn,
    read(event, round): GradientReading {
      const context = contextOf(request, round, clock.now());
      const limits = { run, maxPayloadBytes: maxContainerBytes, ...(features && { features }) };
      const local = localUpdate(event.id);
      const judged = local
        ? (judgeManifest(event, local.manifest, { ...context, ...limits }) ??
          accept(local.manifest))
        : toManifest(event, { ...context, ...limits }, sha256);
      if (!judged.ok) return judged;
      const received = judged.value;
      if (received.roster !== assignment.digest) {
        const ours = assignment.digest ?? 'no roster';
        return refusal(
          received.worker,
          'other-roster',
          `made for roster ${received.roster}, ours is ${ours}`,
        );
      }
      const agreed = agreedSliceCount(received, request, options);
      if (!agreed.ok) return agreed;
      const open: Open = (opened, payload) =>
        openContribution(opened, payload, packer, assignment, agreed.value);
      const beside = local?.sealed.payload;
      const all = local && beside ? { ...received, eventBytes: local.sealed.eventBytes } : received;
      if (local?.sent) return accept(contributionOf(all, local.sent, received.bytes));
      const payload = received.payload ?? beside;
      if (payload) return open(all, payload);
      const { done, progress, stop } = attachments.pull(received, { signal: over.signal });
      return { worker: received.worker, done: pulled(received, done, open), progress, stop };
    },
    close: () => over.abort(new Error('closed')),
  };
}

/**
 * Returns how many slices, from the first on, both workers have alike; undefined without tiers. Refuses a number of
 * slices that the model or the worker's tier does not have.
 */
function agreedSliceCount(
  { worker, round, features }: Manifest,
  { sliceDigests = [], anyBase }: RoundRequest,
  { layout: { slices }, helpers }: ProfileOptions,
): Judged<number | undefined> {
  if (!slices) return accept(undefined);
  const { rings: theirs, tier = 0 }: SliceFeature = features?.widths ?? { rings: [] };
  const sliceCount = theirs.length;
  if (sliceCount === 0 || sliceCount > slices.length) {
    return refusal(worker, 'malformed', `${sliceCount} slices, but the model has ${slices.length}`);
  }
  if (helpers && !trainedSlices(helpers, { tier, sliceCount, round })) {
    return refusal(
      worker,
      'malformed',
      `${sliceCount} slices, but tier ${tier} does not have that many`,
    );
  }
  const at = sliceDigests.findIndex((digest, i) => theirs[i] !== undefined && theirs[i] !== digest);
  return accept(anyBase || at < 0 ? sliceCount : at);
}

/** Returns the round that an event names; undefined if it is not a manifest. */
export function roundIn(event: SignedEvent): number | undefined {
  const received = manifest.parse(event);
  return received.ok ? received.value.round : undefined;
}

/** Returns the contribution inside a payload that is verified against its manifest, or why it does not count. */
export function openContribution(
  received: Manifest,
  payload: Uint8Array,
  packer: Packer,
  assignment: ChunkAssignment,
  agreed?: number,
): Judged<Contribution> {
  const { worker, round } = received;
  const context = { round, worker, assignment, widths: received.features?.widths, agreed };
  const opened = packer.open(payload, received.codec, context);
  if (!opened.ok) {
    const { code, at, message } = opened.issue;
    return refusal(worker, codecReason(code), `${code} at ${at}: ${message}`);
  }
  return accept(contributionOf(received, opened.value, payload.length));
}

/** Returns the contribution of a manifest with its decoded payload. */
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
