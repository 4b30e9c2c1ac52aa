/**
 * Verifies a folder of chunks against its manifest, and reassembles the file. Lost or changed chunks are restored from
 * parity, and only the complete, verified file gets its final name.
 */
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CheckpointError } from '../../base/errors.ts';
import {
  type ErasureGroup,
  erasureGroups,
  type FileManifest,
  type Piece,
} from '../../network/chunks/manifest.ts';
import { MOST_SHARDS, recoveryOf } from '../../network/chunks/reed-solomon.ts';
import { cannotWrite } from '../files/atomic-file.ts';
import {
  type ChunkWorkers,
  createFileHasher,
  inOrder,
  isFileOf,
  judge,
  startChunkWorkers,
} from './chunk-work.ts';
import { chunkFile, readPieces } from './folder.ts';

/** Maximum number of chunks verified at once. */
const AT_ONCE = 8;

export interface UnpackOptions {
  readonly threads?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Also stores restored chunks in the folder. */
  readonly isMending?: boolean;
  onRestored?(piece: Piece): void;
  onProgress?(have: number, of: number): void;
}

/** Reassembles the file. Throws a CheckpointError that counts the missing chunks if parity cannot restore them. */
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
    const hasher = await createFileHasher();
    let have = 0;
    for (const group of erasureGroups(manifest)) {
      const files = await filesOf(group, { workers, folder, part, manifest, options });
      for (const [i, piece] of group.data.entries()) {
        const before = have;
        for await (const bytes of readPieces(files[i]!, piece.bytes)) {
          options.signal?.throwIfAborted();
          hasher.update(bytes);
          await target.writeFile(bytes);
          have += bytes.length;
          options.onProgress?.(have, manifest.bytes);
        }
        if (have - before < piece.bytes) throw changed(piece.name);
      }
      await removeRestored(files, folder, group, options.isMending === true);
    }
    await target.sync();
    if (!isFileOf(hasher.digest(), manifest)) throw changed('the file');
    await rename(part, out);
  } catch (cause) {
    for (let row = 0; row < MOST_SHARDS; row++) await rm(restoredFile(part, row), { force: true });
    await rm(part, { force: true });
    throw cause;
  } finally {
    await target.close();
    await workers.close();
  }
}

/** Restores lost chunks in the folder from parity. Throws a CheckpointError if parity is not enough. */
export async function mendFolder(
  folder: string,
  manifest: FileManifest,
  options: Omit<UnpackOptions, 'isMending'> = {},
): Promise<void> {
  const workers = startChunkWorkers(manifest.bytes, options.threads);
  const part = chunkFile(folder, '.mending');
  try {
    for (const group of erasureGroups(manifest)) {
      const files = await filesOf(group, { workers, folder, part, manifest, options });
      await removeRestored(files, folder, group, true);
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

interface Unpacking {
  readonly workers: ChunkWorkers;
  readonly folder: string;
  readonly part: string;
  readonly manifest: FileManifest;
  readonly options: UnpackOptions;
}

/** Returns a correct file for every chunk of a group: its own, or one that was just restored. */
async function filesOf(group: ErasureGroup, unpacking: Unpacking): Promise<readonly string[]> {
  const { workers, folder, part, manifest, options } = unpacking;
  const { data, parity, bytes } = group;
  const verify = async (piece: Piece) => {
    options.signal?.throwIfAborted();
    return (await judge(workers, folder, piece)) === 'whole';
  };
  const isIntact = await inOrder(data, AT_ONCE, verify);
  const files = data.map(({ sha256 }) => chunkFile(folder, sha256));
  if (isIntact.every(Boolean)) return files;
  // parity is read only if something is lost: most groups are complete
  const isParityIntact = await inOrder(parity, AT_ONCE, verify);
  const shape = manifest.erasure ?? { data: 1, parity: 0 };
  const width = shape.data;
  const isRowIntact = (row: number) =>
    (row < width ? isIntact[row] : isParityIntact[row - width]) === true;
  const recovery = recoveryOf(shape, data.length, isRowIntact);
  if (recovery === undefined) throw tooMuchLost(group, isRowIntact);
  const hashes = await workers.run({
    kind: 'combine',
    bytes,
    matrix: recovery.matrix,
    sources: recovery.sources.map((row) =>
      row < width ? files[row]! : chunkFile(folder, parity[row - width]!.sha256),
    ),
    targets: recovery.targets.map((row) => {
      return { file: restoredFile(part, row), bytes: data[row]!.bytes };
    }),
  });
  for (const [i, row] of recovery.targets.entries()) {
    const piece = data[row]!;
    if (hashes[i]!.blake3 !== piece.blake3 || hashes[i]!.sha256 !== piece.sha256) {
      throw new CheckpointError(
        'checkpoint/parity',
        `${piece.name}, restored from parity, has another hash`,
        { hint: 'the file was packed with wrong parity: download the chunk itself' },
      );
    }
    options.onRestored?.(piece);
  }
  return files.map((file, row) => (isIntact[row] ? file : restoredFile(part, row)));
}

function tooMuchLost(
  { data, parity }: ErasureGroup,
  isRowIntact: (row: number) => boolean,
): CheckpointError {
  const all = [...data, ...parity];
  const gone = all.filter(({ row }) => !isRowIntact(row));
  const { group } = data[0]!;
  const have = all.length - gone.length;
  const names = gone.map(({ name }) => name).join(', ');
  const need = data.length;
  return new CheckpointError(
    'checkpoint/lost',
    `group ${group} has ${have} of ${all.length} chunks and needs ${need}: ` +
      `${names} lost or changed`,
    {
      hint: 'get them from another source with `nostrain checkpoint fetch`',
      data: { stripe: group, have, need },
    },
  );
}

/** Moves restored chunks to their names, or deletes them. */
async function removeRestored(
  files: readonly string[],
  folder: string,
  { data }: ErasureGroup,
  isMending: boolean,
): Promise<void> {
  for (const [i, { sha256 }] of data.entries()) {
    const chunkPath = chunkFile(folder, sha256);
    if (files[i] === chunkPath) continue;
    await (isMending ? rename(files[i]!, chunkPath) : rm(files[i]!, { force: true }));
  }
}

const changed = (what: string): CheckpointError =>
  new CheckpointError('checkpoint/other', `${what} does not have the hashes of the manifest`, {
    hint: 'every chunk was right: a program writes to the folder, or the manifest is inconsistent',
  });

export interface VerifyOptions {
  /** Checks only the BLAKE3 hashes of the chunks. */
  readonly isQuick?: boolean | undefined;
  readonly threads?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A chunk that is lost or has other bytes. */
export interface Damage {
  readonly piece: Piece;
  readonly what: 'lost' | 'changed';
}

export interface VerifiedFolder {
  readonly damage: readonly Damage[];
  /** Indices of the groups with more damage than parity restores. */
  readonly beyond: readonly number[];
  /** Whether the whole file has its hashes; undefined in a quick check, or if chunks are lost. */
  readonly whole: boolean | undefined;
}

/** Files with fewer bytes are checked quickly without threads: starting one would take longer. */
const QUICK_BYTES = 2 ** 31;

/** Verifies every chunk and the whole file. Throws only if the folder cannot be read at all. */
export async function verifyFolder(
  folder: string,
  manifest: FileManifest,
  options: VerifyOptions = {},
): Promise<VerifiedFolder> {
  const isQuick = options.isQuick === true;
  const threads = options.threads ?? (isQuick && manifest.bytes < QUICK_BYTES ? 0 : undefined);
  const workers = startChunkWorkers(manifest.bytes, threads);
  try {
    const groups = erasureGroups(manifest);
    const pieces = groups.flatMap(({ data, parity }) => [...data, ...parity]);
    const whole = isQuick ? undefined : isWhole(folder, manifest, options.signal);
    const results = await inOrder(pieces, AT_ONCE, async (piece) => {
      options.signal?.throwIfAborted();
      return { piece, what: await judge(workers, folder, piece, isQuick) };
    });
    const damage = results.filter((each): each is Damage => each.what !== 'whole');
    const damaged = new Set(damage.map(({ piece }) => piece));
    const beyond = groups.flatMap(({ data, parity }, at) => {
      const lost = data.filter((piece) => damaged.has(piece)).length;
      const left = parity.filter((piece) => !damaged.has(piece)).length;
      return lost > left ? [at] : [];
    });
    return { damage, beyond, whole: await whole };
  } finally {
    await workers.close();
  }
}

/** Reports whether the chunks in order have the hashes of the file; undefined if one cannot be read. */
async function isWhole(
  folder: string,
  manifest: FileManifest,
  signal: AbortSignal | undefined,
): Promise<boolean | undefined> {
  const hasher = await createFileHasher();
  try {
    for (const { sha256 } of manifest.chunks) {
      for await (const piece of readPieces(chunkFile(folder, sha256))) {
        signal?.throwIfAborted();
        hasher.update(piece);
      }
    }
  } catch {
    signal?.throwIfAborted();
    return undefined;
  }
  return isFileOf(hasher.digest(), manifest);
}
