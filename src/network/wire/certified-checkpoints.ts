/** Certified checkpoints on relays: the state in chunks, and an event that says which outcome it belongs to. Neither is believed. */
import { certifiedCheckpoint } from '../../../kinds/certified-checkpoint.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { chunkTree } from '../attachments/merkle.ts';
import { type PublishOptions, publishWithAttachments } from '../attachments/publish.ts';
import type { SignedEvent } from '../event.ts';
import type { Filter } from '../transport/filter.ts';

/** A state that a certified outcome led to. */
export interface CheckpointedState {
  readonly run: Digest;
  /** The round whose outcome made it. */
  readonly round: number;
  /** Digest of that outcome. */
  readonly outcome: Digest;
  readonly ledgerRoot: Digest;
  /** Canonical bytes. */
  readonly model: Uint8Array;
  readonly ledger: Uint8Array;
}

/** Where somebody says a state is to be had. */
export interface CheckpointClaim {
  readonly author: WorkerId;
  readonly round: number;
  readonly outcome: Digest;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
}

/** What to ask relays for. */
export const checkpointsFilter = (run: Digest): Filter => ({
  kinds: [certifiedCheckpoint.kind],
  '#s': [run],
});

/** Sends the state's chunks, then the event; false when no relay took it, or relays do not hold all of the state. */
export async function publishCheckpoint(
  state: CheckpointedState,
  sending: PublishOptions,
): Promise<boolean> {
  const { sha256, lifetime, sign } = sending;
  const { run, round, outcome, ledgerRoot, model, ledger } = state;
  const parts = [model, ledger];
  const [modelTree, ledgerTree] = parts.map((part) => chunkTree(part, sha256));
  const draft = certifiedCheckpoint.build(
    {
      ...{ run, round, outcome, ledgerRoot },
      ...{ modelRoot: modelTree!.root, modelBytes: model.length },
      ...{ ledgerChunks: ledgerTree!.root, ledgerBytes: ledger.length },
      ...{ scope: [run, `${run}/${round}`], x: modelTree!.root, expiration: lifetime.expiresAt },
    },
    lifetime.createdAt,
  );
  const attachments = parts.map((payload) => ({ payload }));
  const { taken, settled } = publishWithAttachments(sign(draft), attachments, sending);
  await settled;
  return taken;
}

/** The claim inside a verified event; undefined for anything else. */
export function toCheckpointClaim(event: SignedEvent, run: Digest): CheckpointClaim | undefined {
  const parsed = certifiedCheckpoint.parse(event);
  if (!parsed.ok || parsed.value.run !== run) return undefined;
  const { round, outcome, modelRoot, ledgerRoot } = parsed.value;
  return { author: event.pubkey, round, outcome, modelRoot, ledgerRoot };
}
