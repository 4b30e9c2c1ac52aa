/** Holds a folder of chunks against its manifest: which chunks are lost or changed, whether parity restores them, whether the whole is what it says. */
import { open } from 'node:fs/promises';
import { toHex } from '../../base/bytes.ts';
import {
  type FileManifest,
  type Piece,
  RootHasher,
  stripesOf,
} from '../../network/chunks/manifest.ts';
import { createNativeBlake3 } from '../native/blake3.ts';
import { createNativeSha256 } from '../native/sha256.ts';
import { type ChunkWorkers, startChunkWorkers } from './chunk-workers.ts';
import { chunkFile, lookFor } from './folder.ts';

export interface VerifyOptions {
  /** BLAKE3 of the chunks alone. */
  readonly isQuick?: boolean | undefined;
  readonly threads?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A chunk that is not what it should be. */
export interface Damage {
  readonly piece: Piece;
  readonly what: 'lost' | 'changed';
}

export interface Verified {
  readonly damage: readonly Damage[];
  /** Stripes of which more is damaged than parity restores. */
  readonly beyond: readonly number[];
  /** Of the whole file; undefined where it was not looked at, since chunks are damaged or in a quick check. */
  readonly whole: boolean | undefined;
}

const QUICK_BYTES = 2 ** 31;

/** Throws only where the folder cannot be read at all. */
export async function verifyFolder(
  folder: string,
  manifest: FileManifest,
  options: VerifyOptions = {},
): Promise<Verified> {
  const isQuick = options.isQuick === true;
  // BLAKE3 alone is done before a thread is there
  const threads = options.threads ?? (isQuick && manifest.bytes < QUICK_BYTES ? 0 : undefined);
  const workers = startChunkWorkers(manifest.bytes, threads);
  try {
    const stripes = stripesOf(manifest);
    const pieces = stripes.flatMap(({ data, parity }) => [...data, ...parity]);
    const whole = isQuick ? undefined : isWhole(folder, manifest, pieces, options.signal);
    const found = await inOrder(pieces, 8, async (piece) => {
      options.signal?.throwIfAborted();
      return { piece, what: await judge(workers, folder, piece, isQuick) };
    });
    const damage = found.filter((each): each is Damage => each.what !== 'whole');
    const damaged = new Set(damage.map(({ piece }) => piece));
    const beyond = stripes.flatMap(({ data, parity }, at) => {
      const lost = data.filter((piece) => damaged.has(piece)).length;
      const left = parity.filter((piece) => !damaged.has(piece)).length;
      return lost > left ? [at] : [];
    });
    return { damage, beyond, whole: await whole };
  } finally {
    await workers.close();
  }
}

/** Reads the chunk and says how it is. */
export async function judge(
  workers: ChunkWorkers,
  folder: string,
  piece: Piece,
  isQuick = false,
): Promise<'whole' | 'lost' | 'changed'> {
  const state = await lookFor(folder, piece);
  if (state !== 'there') return state;
  const file = chunkFile(folder, piece.sha256);
  const kind = isQuick ? 'blake3' : 'hash';
  const read = await workers.run({ kind, file, bytes: piece.bytes }).catch(() => undefined);
  const found = read?.[0];
  if (found === undefined) return 'lost';
  const isSame = found.blake3 === piece.blake3 && (isQuick || found.sha256 === piece.sha256);
  return isSame && found.bytes === piece.bytes ? 'whole' : 'changed';
}

/** Whether the chunks in order have the hashes of the whole, BLAKE3 too or not; undefined where one is not there. */
async function isWhole(
  folder: string,
  manifest: FileManifest,
  pieces: readonly Piece[],
  signal: AbortSignal | undefined,
): Promise<boolean | undefined> {
  const check = await createWholeCheck(manifest);
  const buffer = new Uint8Array(2 ** 20);
  for (const { sha256, offset } of pieces) {
    if (offset === undefined) continue;
    const handle = await open(chunkFile(folder, sha256)).catch(() => undefined);
    if (handle === undefined) return undefined;
    try {
      for (;;) {
        signal?.throwIfAborted();
        const { bytesRead } = await handle.read(buffer, 0, buffer.length);
        if (bytesRead === 0) break;
        check.update(buffer.subarray(0, bytesRead));
      }
    } catch {
      signal?.throwIfAborted();
      return undefined;
    } finally {
      await handle.close();
    }
  }
  return check.isThis();
}

/** Hashes a file that comes in pieces, and says whether it is the one of the manifest: SHA-256, the root of a certified outcome, and BLAKE3. */
export async function createWholeCheck({
  sha256,
  blake3,
  root,
}: FileManifest): Promise<{ update(piece: Uint8Array): void; isThis(): boolean }> {
  const whole = createNativeSha256();
  const tree = new RootHasher(createNativeSha256);
  const other = await createNativeBlake3();
  return {
    update(piece) {
      whole.update(piece);
      tree.update(piece);
      other.update(piece);
    },
    isThis: () =>
      toHex(whole.digest()) === sha256 && tree.digest() === root && other.digest() === blake3,
  };
}

/** Works on all items, at most so many at once; answers in their order. */
export async function inOrder<T, R>(
  items: readonly T[],
  atOnce: number,
  work: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const one = async () => {
    while (next < items.length) {
      const index = next++;
      results[index] = await work(items[index]!, index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, one));
  return results;
}
