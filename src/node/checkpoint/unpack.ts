/** Makes the file of a folder of chunks again: chunks that are lost or changed come back from parity, and only the whole file gets its name. */
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { toHex } from '../../base/bytes.ts';
import { CheckpointError } from '../../base/errors.ts';
import {
  type FileManifest,
  type Piece,
  RootHasher,
  type StripePieces,
  stripesOf,
} from '../../network/chunks/manifest.ts';
import { recoveryOf } from '../../network/chunks/reed-solomon.ts';
import { cannotWrite } from '../files/whole-file.ts';
import { createNativeBlake3 } from '../native/blake3.ts';
import { createNativeSha256 } from '../native/sha256.ts';
import { type ChunkWorkers, startChunkWorkers } from './chunk-work.ts';
import { chunkFile, lookFor } from './folder.ts';

export interface UnpackOptions {
  readonly threads?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether what parity restored is put into the folder too. */
  readonly isMending?: boolean;
  onRestored?(piece: Piece): void;
  onProgress?(have: number, of: number): void;
}

const PIECE = 2 ** 20;
/** Of a stripe. */
const MOST_ROWS = 256;

/** Throws a CheckpointError that counts what is missing where parity does not restore it; then there is no file. */
export async function unpackFolder(
  folder: string,
  manifest: FileManifest,
  out: string,
  options: UnpackOptions = {},
): Promise<void> {
  const part = `${out}.part`;
  const target = await create(part, out);
  const workers = startChunkWorkers(manifest.bytes, options.threads);
  try {
    const write = await createWriter(target, manifest, options);
    for (const stripe of stripesOf(manifest)) {
      const files = await filesOf(stripe, { workers, folder, part, manifest, options });
      for (const [i, piece] of stripe.data.entries()) await write.chunk(files[i]!, piece);
      await removeRestored(files, folder, stripe, options.isMending === true);
    }
    await target.sync();
    write.assertWhole();
    await rename(part, out);
  } catch (cause) {
    for (let row = 0; row < MOST_ROWS; row++) await rm(restoredFile(part, row), { force: true });
    await rm(part, { force: true });
    throw cause;
  } finally {
    await target.close();
    await workers.close();
  }
}

/** Puts into the folder what parity restores of it, and makes no file; throws where parity does not reach. */
export async function mendFolder(
  folder: string,
  manifest: FileManifest,
  options: Omit<UnpackOptions, 'isMending'> = {},
): Promise<void> {
  const workers = startChunkWorkers(manifest.bytes, options.threads);
  const part = chunkFile(folder, '.mending');
  try {
    for (const stripe of stripesOf(manifest)) {
      const files = await filesOf(stripe, { workers, folder, part, manifest, options });
      await removeRestored(files, folder, stripe, true);
    }
  } finally {
    await workers.close();
  }
}

async function create(part: string, out: string): Promise<FileHandle> {
  try {
    await mkdir(dirname(out), { recursive: true });
    return await open(part, 'w', 0o600);
  } catch (cause) {
    throw cannotWrite(out, cause);
  }
}

const restoredFile = (part: string, row: number): string => `${part}-restored-${row}`;

interface Place {
  readonly workers: ChunkWorkers;
  readonly folder: string;
  readonly part: string;
  readonly manifest: FileManifest;
  readonly options: UnpackOptions;
}

/** A good file for every chunk of a stripe: its own, or one that was just restored. */
async function filesOf(stripe: StripePieces, place: Place): Promise<readonly string[]> {
  const { workers, folder, part, manifest, options } = place;
  const { data, parity, bytes } = stripe;
  const states = await inOrder([...data, ...parity], 8, async (piece) => {
    options.signal?.throwIfAborted();
    // parity is looked at only where something is lost: most stripes are whole
    return piece.offset === undefined ? 'unknown' : judge(workers, folder, piece);
  });
  const files = data.map(({ sha256 }) => chunkFile(folder, sha256));
  const isLost = (row: number) => states[row] !== 'whole';
  if (!data.some((_, row) => isLost(row))) return files;
  const good = await inOrder(parity, 8, (piece) => judge(workers, folder, piece));
  const width = manifest.stripe?.data ?? 1;
  const isHeld = (row: number) =>
    row < width ? states[row] === 'whole' : good[row - width] === 'whole';
  const shape = manifest.stripe ?? { data: 1, parity: 0 };
  const recovery = recoveryOf(shape, data.length, isHeld);
  if (recovery === undefined) throw tooMuchLost(stripe, isHeld);
  const targets = recovery.targets.map((row) => ({
    file: restoredFile(part, row),
    bytes: data[row]!.bytes,
  }));
  const sources = recovery.sources.map((row) =>
    row < width ? files[row]! : chunkFile(folder, parity[row - width]!.sha256),
  );
  const found = await workers.run({
    kind: 'combine',
    matrix: recovery.matrix,
    sources,
    bytes,
    targets,
  });
  for (const [i, row] of recovery.targets.entries()) {
    const piece = data[row]!;
    if (found[i]!.blake3 !== piece.blake3 || found[i]!.sha256 !== piece.sha256) {
      throw new CheckpointError(
        'checkpoint/parity',
        `${piece.name} came out of parity as other bytes`,
        { hint: 'whoever packed this made wrong parity: fetch the chunk itself' },
      );
    }
    options.onRestored?.(piece);
  }
  return files.map((file, row) => (isLost(row) ? restoredFile(part, row) : file));
}

function tooMuchLost(
  { data, parity }: StripePieces,
  isHeld: (row: number) => boolean,
): CheckpointError {
  const all = [...data, ...parity];
  const gone = all.filter(({ row }) => !isHeld(row));
  const stripe = data[0]!.stripe;
  return new CheckpointError(
    'checkpoint/lost',
    `stripe ${stripe} has ${all.length - gone.length} of ${all.length} chunks and needs ${data.length}: ${gone.map(({ name }) => name).join(', ')} lost or changed`,
    {
      hint: 'get them from another place with `nostrain checkpoint fetch`',
      data: { stripe, have: all.length - gone.length, need: data.length },
    },
  );
}

/** Puts restored chunks in their place, or away. */
async function removeRestored(
  files: readonly string[],
  folder: string,
  { data }: StripePieces,
  isMending: boolean,
): Promise<void> {
  for (const [i, { sha256 }] of data.entries()) {
    const own = chunkFile(folder, sha256);
    if (files[i] === own) continue;
    await (isMending ? rename(files[i]!, own) : rm(files[i]!, { force: true }));
  }
}

async function createWriter(target: FileHandle, manifest: FileManifest, options: UnpackOptions) {
  const check = await createWholeCheck(manifest);
  const buffer = new Uint8Array(PIECE);
  let have = 0;
  return {
    async chunk(file: string, { bytes, name }: Piece): Promise<void> {
      const source = await open(file);
      try {
        for (let at = 0; at < bytes; ) {
          options.signal?.throwIfAborted();
          const { bytesRead } = await source.read(buffer, 0, Math.min(PIECE, bytes - at));
          if (bytesRead === 0) throw changed(name);
          const piece = buffer.subarray(0, bytesRead);
          check.update(piece);
          await target.writeFile(piece);
          at += bytesRead;
          have += bytesRead;
          options.onProgress?.(have, manifest.bytes);
        }
      } finally {
        await source.close();
      }
    },
    assertWhole(): void {
      if (!check.isThis()) throw changed('the whole');
    },
  };
}

const changed = (what: string): CheckpointError =>
  new CheckpointError('checkpoint/other', `${what} is not what the manifest says`, {
    hint: 'every chunk was right when it was looked at: somebody writes to the folder, or the manifest contradicts itself',
  });

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
