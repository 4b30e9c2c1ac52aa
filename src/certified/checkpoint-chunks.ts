/**
 * Checkpoints of runs that name places: whoever publishes one stores its chunks there too and says the digest of their manifest; whoever joins gets
 * them from there. Neither place nor digest is believed: what comes is held against the certified root, and relays have the chunks as ever.
 */
import { type CreateSha256, createSha256 as pureSha256 } from '../base/hash.ts';
import { createDigester, RootHasher } from '../checkpoint/digester.ts';
import { chunkCount, type Manifest, manifestDigest } from '../checkpoint/manifest.ts';
import type { PayloadRoot } from '../network/attachments/merkle.ts';
import type { ControlOptions } from '../network/wire/control.ts';
import type { Digest } from '../run/ids.ts';
import type { RunSpec } from '../run/run-spec.ts';
import type { CertifiedPorts } from './events.ts';

/** A checkpoint as chunks. */
export interface PackedBytes {
  readonly manifest: Manifest;
  /** Every chunk by its SHA-256: views, nothing is copied. */
  readonly chunks: ReadonlyMap<Digest, Uint8Array>;
}

/** Stores and fetches chunks at the places of a run. */
export interface CheckpointChunks {
  /** Rejects where no place took all of it. */
  store(packed: PackedBytes, signal: AbortSignal): Promise<void>;
  /** Rejects where no place has it. */
  fetch(digest: Digest, payload: PayloadRoot, signal: AbortSignal | undefined): Promise<Uint8Array>;
}

/** Of every checkpoint of a run, so that all holders name one manifest. */
const CHUNK_BYTES = 2 ** 20;

interface Machine {
  readonly signal: AbortSignal;
  readonly report: CertifiedPorts['report'];
  readonly createSha256?: CreateSha256 | undefined;
}

/** What a run with places says beside its checkpoints; nothing in other runs. */
export function checkpointFeatures(
  { features }: RunSpec,
  chunks: CheckpointChunks | undefined,
  { signal, report, createSha256 = pureSha256 }: Machine,
): Pick<ControlOptions<unknown>, 'checkpointFeatures'> {
  if (!features.includes('places')) return {};
  return {
    async checkpointFeatures(model) {
      const packed = await packBytes(model, createSha256);
      // relays have all of it: a place that is away costs newcomers time, not the checkpoint
      chunks?.store(packed, signal).catch((error: unknown) => {
        if (signal.aborted) return;
        const why = error instanceof Error ? error.message : String(error);
        report({ type: 'notice', message: `the places of this run lack the checkpoint: ${why}` });
      });
      return { places: { manifest: manifestDigest(packed.manifest) } };
    },
  };
}

/** Equal bytes give one manifest, whoever packs them; at least one byte. */
async function packBytes(payload: Uint8Array, createSha256: CreateSha256): Promise<PackedBytes> {
  const digester = await createDigester(createSha256);
  const root = new RootHasher(createSha256);
  const chunks = new Map<Digest, Uint8Array>();
  const hashes = Array.from({ length: chunkCount(payload.length, CHUNK_BYTES) }, (_, i) => {
    const chunk = payload.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES);
    digester.update(chunk);
    const found = digester.digest();
    chunks.set(found.sha256, chunk);
    return found;
  });
  digester.update(payload);
  root.update(payload);
  const whole = { bytes: payload.length, ...digester.digest(), root: root.digest() };
  return {
    manifest: { ...whole, chunkBytes: CHUNK_BYTES, stripe: null, chunks: hashes, parity: [] },
    chunks,
  };
}
