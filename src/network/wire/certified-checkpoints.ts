/** Certified checkpoints on relays: the state in chunks, and an event that says which outcome it belongs to. Neither is believed. */
import { certifiedCheckpoint } from '../../../kinds/certified-checkpoint.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Lifetime } from '../attachments/chunk-events.ts';
import { chunkTree } from '../attachments/merkle.ts';
import { sendChunks } from '../attachments/publish.ts';
import type { EventDraft, SignedEvent } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { Filter } from '../transport/filter.ts';
import type { RelaySet } from '../transport/relay-set.ts';

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

export interface CheckpointSending {
  readonly relays: RelaySet;
  readonly sha256: Sha256;
  readonly lifetime: Lifetime;
  readonly signal: AbortSignal;
  sign(draft: EventDraft): SignedEvent;
}

/** What to ask relays for. */
export const checkpointsFilter = (run: Digest): Filter => ({
  kinds: [certifiedCheckpoint.kind],
  '#s': [run],
});

/** Sends the chunks, then the event; false when relays do not hold all of them. */
export async function publishCheckpoint(
  state: CheckpointedState,
  sending: CheckpointSending,
): Promise<boolean> {
  const { relays, sha256, lifetime, signal, sign } = sending;
  const { run, round, outcome, ledgerRoot, model, ledger } = state;
  const parts = [model, ledger];
  const all = parts.map((part) =>
    sendChunks([part], 1, { relays, sign, sha256, lifetime, signal }),
  );
  const held = await Promise.all(all.map(({ enough }) => enough));
  if (!held.every(Boolean)) return false;
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
  await relays.publish(sign(draft), { signal });
  return true;
}

/** The claim inside a verified event; undefined for anything else. */
export function toCheckpointClaim(event: SignedEvent, run: Digest): CheckpointClaim | undefined {
  const parsed = certifiedCheckpoint.parse(event);
  if (!parsed.ok || parsed.value.run !== run) return undefined;
  const { round, outcome, modelRoot, ledgerRoot } = parsed.value;
  return { author: event.pubkey, round, outcome, modelRoot, ledgerRoot };
}
