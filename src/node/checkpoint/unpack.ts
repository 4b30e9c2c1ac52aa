/** Makes the file of a folder of chunks again: chunks that are lost or changed come back from parity, and only the whole file gets its name. */
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CheckpointError } from '../../base/errors.ts';
import {
  type FileManifest,
  type Piece,
  type StripePieces,
  stripesOf,
} from '../../network/chunks/manifest.ts';
import { recoveryOf } from '../../network/chunks/reed-solomon.ts';
import { cannotWrite } from '../files/whole-file.ts';
import { type ChunkWorkers, startChunkWorkers } from './chunk-workers.ts';
import { chunkFile } from './folder.ts';
import { createWholeCheck, inOrder, judge } from './verify.ts';

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
