/** Certified checkpoints on relays: the state in chunks, and an event that says which outcome it belongs to. Neither is believed. */
import { certifiedCheckpoint } from '../../../kinds/certified-checkpoint.ts';
import { sha256 as pureSha256 } from '../../base/hash.ts';
import { type PublishOptions, publishWithAttachments } from '../../network/attachments/publish.ts';
import { type Keepers, sendShare } from '../../network/attachments/share.ts';
import type { Lifetime } from '../../network/chunks/payload.ts';
import { chunkTree } from '../../network/chunks/payload.ts';
import type { EventDraft, SignedEvent } from '../../network/event.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Filter } from '../../network/transport/filter.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import {
  type FeatureSet,
  type FeatureValues,
  noFeatures,
  withFeatures,
} from '../../run/spec/features.ts';

/** A state that a certified outcome led to. */
export interface CheckpointedState {
  readonly run: Digest;
  /** The round whose outcome made it. */
  readonly round: number;
  /** Digest of that outcome. */
  readonly outcome: Digest;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
  /** What features of the run add. */
  readonly features?: FeatureValues<'checkpoint'>;
  /** Canonical bytes; in a run with tiers of width of each ring, which travels under a root of its own. */
  readonly model: readonly Uint8Array[];
  readonly ledger: Uint8Array;
}

/** Where somebody says a state is to be had. */
export interface CheckpointClaim {
  readonly author: WorkerId;
  readonly round: number;
  readonly outcome: Digest;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
  readonly features?: FeatureValues<'checkpoint'>;
}

/** What to ask relays for. */
export const checkpointsFilter = (run: Digest): Filter => ({
  kinds: [certifiedCheckpoint.kind],
  '#s': [run],
});

/**
 * Sends what is this keeper's of the state's chunks, the event as soon as each of those is at a relay, and second copies after it; false when no
 * relay took the event, or relays do not hold all of the share. Who reads one event finds the shares of all keepers.
 */
export async function publishCheckpoint(
  state: CheckpointedState,
  keepers: Keepers,
  sending: PublishOptions,
): Promise<boolean> {
  const { sha256, lifetime, sign } = sending;
  const draft = publishedDraft(state, lifetime, sha256);
  const shares = [...state.model, state.ledger].map((each) => sendShare(each, keepers, sending));
  const isOut = await Promise.all(shares.map(({ first }) => first));
  if (!isOut.every(Boolean)) return false;
  const { taken, settled } = publishWithAttachments(sign(draft), [], sending);
  const copied = await Promise.all(shares.map(({ all }) => all));
  await settled;
  return (await taken) && copied.every(Boolean);
}

/** The unsigned event that says where a state is. */
export function publishedDraft(
  state: CheckpointedState,
  lifetime: Lifetime,
  hash: Sha256 = pureSha256,
): EventDraft {
  const { run, round, outcome, modelRoot, ledgerRoot, model, ledger } = state;
  const modelBytes = model.reduce((sum, { length }) => sum + length, 0);
  return certifiedCheckpoint.build(
    {
      run,
      round,
      outcome,
      ledgerRoot,
      ...withFeatures(state.features),
      modelRoot,
      modelBytes,
      ledgerChunks: chunkTree(ledger, hash).root,
      ledgerBytes: ledger.length,
      scope: [run, `${run}/${round}`],
      x: modelRoot,
      expiration: lifetime.expiresAt,
    },
    lifetime.createdAt,
  );
}

/** The claim inside a verified event; undefined for anything else. */
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
