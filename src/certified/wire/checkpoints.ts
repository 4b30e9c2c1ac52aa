/**
 * Certified checkpoints: publishes the state as chunks on relays and the event that names its outcome; with features
 * `places` or `placement` also at mirrors and holders. Readers check everything against the certified root.
 */
import { certifiedCheckpoint } from '../../../kinds/certified-checkpoint.ts';
import type { Clock } from '../../base/async.ts';
import {
  type CreateSha256,
  createSha256 as pureCreateSha256,
  sha256 as pureSha256,
} from '../../base/hash.ts';
import { stateBytes } from '../../consensus/roots.ts';
import type { Attachments } from '../../network/attachments/attachments.ts';
import type { Keepers, PublishOptions } from '../../network/attachments/publish.ts';
import {
  chunkCount,
  createDigester,
  type FileManifest,
  manifestDigest,
  RootHasher,
} from '../../network/chunks/manifest.ts';
import { chunkTree, type Lifetime, type PayloadRoot } from '../../network/chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Filter } from '../../network/transport/frames.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import {
  type FeatureSet,
  type FeatureValues,
  noFeatures,
  withFeatures,
} from '../../run/spec/features.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Certified } from '../decisions/chain.ts';
import type { CertifiedPorts } from '../rounds/events.ts';

/** The untrusted content of a checkpoint event. */
export interface CheckpointClaim extends Pick<Outcome, 'round' | 'modelRoot' | 'ledgerRoot'> {
  readonly author: WorkerId;
  /** Digest of the outcome that led to the state. */
  readonly outcome: Digest;
  /** Fields that features of the run add. */
  readonly features?: FeatureValues<'checkpoint'>;
}

/** The state after a certified outcome. */
export interface CheckpointedState extends Omit<CheckpointClaim, 'author'> {
  readonly run: Digest;
  /** Canonical bytes of the model; in a run with tiers one part per slice, each under its own root. */
  readonly model: readonly Uint8Array[];
  readonly ledger: Uint8Array;
}

export const checkpointsFilter = (run: Digest): Filter => ({
  kinds: [certifiedCheckpoint.kind],
  '#s': [run],
});

/**
 * Sends this keeper's share of the chunks, then the event, then second copies. Returns false if no relay took the event
 * or relays lack part of the share. Any one event leads readers to the shares of all keepers.
 */
export async function publishCheckpoint(
  state: CheckpointedState,
  keepers: Keepers,
  attachments: Attachments,
  sending: PublishOptions,
): Promise<boolean> {
  const draft = publishedDraft(state, sending.lifetime, attachments.access.sha256);
  const shares = [...state.model, state.ledger].map((each) =>
    attachments.publishShare(each, keepers, sending),
  );
  const isOut = await Promise.all(shares.map(({ first }) => first));
  if (!isOut.every(Boolean)) return false;
  const { taken, settled } = attachments.publish(sending.sign(draft), [], sending);
  const copied = await Promise.all(shares.map(({ all }) => all));
  await settled;
  return (await taken) && copied.every(Boolean);
}

export function publishedDraft(
  state: CheckpointedState,
  lifetime: Lifetime,
  hash: Sha256 = pureSha256,
): EventDraft {
  const { model, ledger, ...claim } = state;
  const { run, round, modelRoot } = claim;
  return certifiedCheckpoint.build(
    {
      ...claim,
      modelBytes: model.reduce((sum, { length }) => sum + length, 0),
      ledgerChunks: chunkTree(ledger, hash).root,
      ledgerBytes: ledger.length,
      scope: [run, `${run}/${round}`],
      x: modelRoot,
      expiration: lifetime.expiresAt,
    },
    lifetime.createdAt,
  );
}

/** Returns the claim in a verified event; undefined for any other event. */
export function toCheckpointClaim(
  event: SignedEvent,
  run: Digest,
  features: FeatureSet = noFeatures,
): CheckpointClaim | undefined {
  const parsed = certifiedCheckpoint.parse(event);
  if (!parsed.ok || parsed.value.run !== run) return undefined;
  const { round, outcome, modelRoot, ledgerRoot } = parsed.value;
  const added = features.read('checkpoint', parsed.value.features);
  if (!added.ok) return undefined;
  const author = event.pubkey;
  return { author, round, outcome, modelRoot, ledgerRoot, ...withFeatures(added.value) };
}

export interface PackedBytes {
  readonly manifest: FileManifest;
  /** Chunks by SHA-256, as views of the packed bytes. */
  readonly chunks: ReadonlyMap<Digest, Uint8Array>;
}

/** A checkpoint to fetch, and where to look for it. */
export interface CheckpointRequest {
  /** Digest of the chunk manifest, as the publisher of the checkpoint claims it. */
  readonly digest: Digest;
  /** Certified root and length. */
  readonly payload: PayloadRoot;
  /** Roster after its round: the members that may hold chunks. */
  readonly members: readonly WorkerId[];
  readonly relays: RelaySet;
  readonly clock: Clock;
  readonly signal: AbortSignal | undefined;
}

/** Stores, holds and fetches checkpoint chunks of a run. */
export interface CheckpointChunks {
  /** Stores all chunks at the run's mirrors; rejects if no mirror took all of them. */
  store(packed: PackedBytes, signal: AbortSignal): Promise<void>;
  /** Rejects if no source has it. */
  fetch(wanted: CheckpointRequest): Promise<Uint8Array>;
  /** Set if this worker holds chunks for others. */
  readonly holder?: ChunkHolder | undefined;
}

/** Holds a worker's share of its run's checkpoints. */
export interface ChunkHolder {
  /** Announces the held chunks until the signal aborts. */
  announce(relays: RelaySet, signal: AbortSignal): void;
  /**
   * Stores the chunks of a checkpoint that placement assigns to this worker; `members` is the roster after its round.
   * Never rejects.
   */
  hold(packed: PackedBytes, members: readonly WorkerId[]): Promise<void>;
}

/** Chunk size of every checkpoint in bytes; fixed, so that all holders compute the same manifest. */
export const CHECKPOINT_CHUNK_BYTES = 2 ** 20;
/** Maximum manifests tried for one checkpoint. */
const MOST_MANIFESTS = 3;

interface Machine {
  readonly signal: AbortSignal;
  readonly report: CertifiedPorts['report'];
  readonly createSha256?: CreateSha256 | undefined;
}

/** Features that add a chunk manifest to checkpoints. */
const named = ['places', 'placement'] as const;

/** Returns how to compute the checkpoint fields of a run with `places` or `placement`; empty for other runs. */
export function checkpointFeatures(
  { features, places }: RunSpec,
  chunks: CheckpointChunks | undefined,
  { signal, report, createSha256 = pureCreateSha256 }: Machine,
): { checkpointFeatures?(model: readonly Uint8Array[]): Promise<FeatureValues<'checkpoint'>> } {
  const namedFeatures = named.filter((name) => features.includes(name));
  if (namedFeatures.length === 0) return {};
  return {
    async checkpointFeatures([model, ...others]) {
      // no run has both these and tiers
      if (model === undefined || others.length > 0) return {};
      const packed = await packBytes(model, createSha256);
      // relays have all chunks, so an unreachable mirror only slows newcomers down
      if (places.length > 0) {
        chunks?.store(packed, signal).catch((error: unknown) => {
          if (signal.aborted) return;
          const why = error instanceof Error ? error.message : String(error);
          report({
            type: 'notice',
            message: `the mirrors of this run lack the checkpoint: ${why}`,
          });
        });
      }
      const manifest = manifestDigest(packed.manifest);
      return Object.fromEntries(namedFeatures.map((name) => [name, { manifest }]));
    },
  };
}

/** Gives a certified state to this worker's chunk holder, if it has one. Never rejects. */
export async function holdState(
  state: Certified,
  holder: ChunkHolder | undefined,
  createSha256: CreateSha256 = pureCreateSha256,
): Promise<void> {
  if (holder === undefined || state.spec.placement === null) return;
  const packed = await packBytes(stateBytes(state), createSha256);
  await holder.hold(
    packed,
    state.ledger.members.map(({ key }) => key),
  );
}

/**
 * Returns the manifests that claims of one checkpoint name, those claimed by most members first; anyone may publish a
 * claim.
 */
export function manifestsOf(
  claims: readonly CheckpointClaim[],
  members: readonly WorkerId[],
): readonly Digest[] {
  const authors = new Map<Digest, Set<WorkerId>>();
  for (const { author, features } of claims) {
    const digest = features?.placement?.manifest ?? features?.places?.manifest;
    if (digest !== undefined) authors.set(digest, (authors.get(digest) ?? new Set()).add(author));
  }
  const votes = (keys: ReadonlySet<WorkerId>) => members.filter((key) => keys.has(key)).length;
  const ranked = [...authors].sort(([, a], [, b]) => votes(b) - votes(a));
  return ranked.slice(0, MOST_MANIFESTS).map(([digest]) => digest);
}

/** Packs at least one byte into chunks; equal bytes always give the same manifest. */
export async function packBytes(
  payload: Uint8Array,
  createSha256: CreateSha256,
): Promise<PackedBytes> {
  const digester = await createDigester(createSha256);
  const root = new RootHasher(createSha256);
  const chunks = new Map<Digest, Uint8Array>();
  const hashes = Array.from(
    { length: chunkCount(payload.length, CHECKPOINT_CHUNK_BYTES) },
    (_, i) => {
      const chunk = payload.subarray(i * CHECKPOINT_CHUNK_BYTES, (i + 1) * CHECKPOINT_CHUNK_BYTES);
      digester.update(chunk);
      const chunkHash = digester.digest();
      chunks.set(chunkHash.sha256, chunk);
      return chunkHash;
    },
  );
  digester.update(payload);
  root.update(payload);
  const whole = { bytes: payload.length, ...digester.digest(), root: root.digest() };
  return {
    manifest: {
      ...whole,
      chunkBytes: CHECKPOINT_CHUNK_BYTES,
      erasure: null,
      chunks: hashes,
      parity: [],
    },
    chunks,
  };
}
