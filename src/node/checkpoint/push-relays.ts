/**
 * Publishes a packed file on relays: first chunk events (kind 7811), an equal share to each relay, then the event with
 * the manifest. A chunk that one relay refuses is sent to another.
 */
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { packed } from '../../../kinds/packed.ts';
import { systemClock } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import { CheckpointError } from '../../base/errors.ts';
import {
  type ChunkDelivery,
  distributeChunks,
  type Errand,
  remembering,
} from '../../network/attachments/publish.ts';
import { type FileManifest, manifestText, RootHasher } from '../../network/chunks/manifest.ts';
import { type ChunkTree, draftChunk, type Lifetime } from '../../network/chunks/payload.ts';
import type { Signer } from '../../network/event.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { buildAddressed, publishAddressed } from '../../network/wire/addressed.ts';
import { createNativeSha256, nativeSha256 } from '../native/sha256.ts';
import { readBytes, readRange } from './folder.ts';

export interface PushRelays {
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly lifetime: Lifetime;
  readonly signal: AbortSignal;
  /** Number of relays that get each chunk. */
  readonly redundancy: number;
  /** Called with the number of events accepted so far, and the number to send. */
  onProgress?(taken: number, of: number): void;
}

/** Number of signed events kept for slower relays. */
const REMEMBERED = 256;

/**
 * Publishes a file and returns the result per relay. Throws a CheckpointError if a chunk is lost, or no relay accepts a
 * chunk or the manifest.
 */
export async function pushToRelays(
  folder: string,
  manifest: FileManifest,
  options: PushRelays,
): Promise<readonly ChunkDelivery[]> {
  const { signal, relays, signer, lifetime } = options;
  const tree = await treeOf(folder, manifest, signal);
  const deliveries = await pushChunks(folder, manifest, tree, options);
  const text = utf8(manifestText(manifest));
  const { sign } = signer;
  const how = { relays, clock: systemClock, lifetime, signal, sha256: nativeSha256, sign };
  const refused = await publishAddressed(buildAddressed(packed, text, lifetime, nativeSha256), how);
  if (refused === undefined) return deliveries;
  throw new CheckpointError('checkpoint/refused', `no relay accepted the manifest: ${refused}`, {
    hint: 'the chunks are published: pass on manifest.json, or name other relays with --to',
  });
}

/** Hashes the file in the folder. Returns its Merkle tree. */
async function treeOf(
  folder: string,
  manifest: FileManifest,
  signal: AbortSignal,
): Promise<ChunkTree> {
  if (manifest.root === null) {
    throw new CheckpointError('checkpoint/too-large', 'the file is too long for relays', {
      hint: 'store files of more than 2.9 GB on Blossom servers, holders or folders',
    });
  }
  const hasher = new RootHasher(createNativeSha256);
  for await (const part of readRange(folder, manifest, 0, manifest.bytes)) {
    signal.throwIfAborted();
    hasher.update(part);
  }
  const tree = hasher.tree();
  if (tree?.root === manifest.root) return tree;
  throw new CheckpointError('checkpoint/other', `${folder} does not match its manifest`, {
    hint: 'run `nostrain checkpoint verify` to see which chunks changed',
  });
}

async function pushChunks(
  folder: string,
  manifest: FileManifest,
  tree: ChunkTree,
  { relays, signer, lifetime, signal, onProgress, ...options }: PushRelays,
): Promise<readonly ChunkDelivery[]> {
  const all = relays.relays;
  const redundancy = Math.min(options.redundancy, all.length);
  // round-robin, so that all relays get the same share
  const errands = Array.from({ length: tree.count }, (_, index): Errand => {
    const at = index % all.length;
    return { index, relays: [...all.slice(at), ...all.slice(0, at)] };
  });
  const eventOf = remembering(REMEMBERED, async (index) => {
    const from = index * CHUNK_BYTES;
    const data = await readBytes(folder, manifest, from, from + CHUNK_BYTES);
    return signer.sign(draftChunk(tree, index, data, lifetime));
  });
  let taken = 0;
  const onTaken = () => onProgress?.(++taken, tree.count * redundancy);
  const how = { relays, signal };
  const { nowhere, deliveries } = await distributeChunks(errands, redundancy, how, {
    eventOf,
    onTaken,
  });
  signal.throwIfAborted();
  if (nowhere === 0) return deliveries;
  const refusals = deliveries.filter(({ message }) => message !== '');
  const words = refusals.map(({ relay, message }) => `${relay}: ${message}`).join('; ');
  throw new CheckpointError(
    'checkpoint/refused',
    `no relay accepted ${nowhere} of ${tree.count} chunks: ${words}`,
    { hint: 'name more relays with --to; run the same command again to send the missing chunks' },
  );
}
