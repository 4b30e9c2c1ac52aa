/**
 * Folders that hold a chunked file: `manifest.json`, and one file per chunk, named by its SHA-256. Reads them, and
 * makes a folder a source to download from or a mirror to store at: another disk, a network share, a mounted bucket.
 */
import { createReadStream } from 'node:fs';
import { lstat, mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { toHex } from '../../base/bytes.ts';
import { CheckpointError } from '../../base/errors.ts';
import { orBadManifest } from '../../network/chunks/find-manifest.ts';
import {
  type FileManifest,
  MOST_MANIFEST_BYTES,
  type Piece,
} from '../../network/chunks/manifest.ts';
import { type Blob, type ChunkSource, SourceError } from '../../network/chunks/source.ts';
import type { Digest } from '../../run/ids.ts';
import { nativeSha256 } from '../native/sha256.ts';

export const MANIFEST_FILE = 'manifest.json';

/** Bytes read from a file at once. */
const PIECE_BYTES = 2 ** 20;

/** Returns the path of a chunk. */
export const chunkFile = (folder: string, sha256: Digest): string => join(folder, sha256);

/** Returns the error about a chunk that is not in its folder. */
export const lostChunk = (sha256: Digest, folder: string, cause: unknown): CheckpointError =>
  new CheckpointError('checkpoint/lost', `chunk ${sha256} is not in ${folder}`, {
    hint: 'restore it with `nostrain checkpoint unpack --mend`, or download it with `fetch`',
    cause,
  });

/** Returns the manifest of a folder. Throws a CheckpointError that says what is wrong with it. */
export const readManifest = (folder: string): Promise<FileManifest> =>
  readManifestFile(join(folder, MANIFEST_FILE));

/** Returns the manifest in a file. */
export async function readManifestFile(file: string): Promise<FileManifest> {
  const text = await readShort(file).catch((cause: NodeJS.ErrnoException) => {
    if (cause instanceof CheckpointError) throw cause;
    throw new CheckpointError(
      'checkpoint/no-manifest',
      `no manifest can be read at ${file} (${cause.code ?? cause.message})`,
      { hint: 'name a folder that `nostrain checkpoint pack` or `fetch` wrote', cause },
    );
  });
  return orBadManifest(file, text);
}

async function readShort(file: string): Promise<string> {
  const handle = await open(file);
  try {
    const stats = await handle.stat();
    if (stats.isFile() && stats.size <= MOST_MANIFEST_BYTES) return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
  throw new CheckpointError('checkpoint/bad-manifest', `${file} is not a manifest`, {
    hint: `a manifest is a file of at most ${MOST_MANIFEST_BYTES} bytes`,
  });
}

/** Reports whether a chunk's file is there with its length, lost, or something else, without reading it. */
export async function pieceFileState(
  folder: string,
  { sha256, bytes }: Pick<Piece, 'sha256' | 'bytes'>,
): Promise<'there' | 'lost' | 'changed'> {
  const stats = await lstat(chunkFile(folder, sha256)).catch(() => undefined);
  if (!stats) return 'lost';
  return stats.isFile() && stats.size === bytes ? 'there' : 'changed';
}

/** Returns the folders with a manifest: the one named, or those directly inside it. */
export async function findPacked(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
    throw new CheckpointError('checkpoint/no-folder', `${folder} cannot be read`, {
      hint: 'name an existing folder',
      cause,
    });
  });
  if (entries.some(({ name }) => name === MANIFEST_FILE)) return [folder];
  const inside = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  const packed: string[] = [];
  for (const name of inside.sort()) {
    const stats = await lstat(join(folder, name, MANIFEST_FILE)).catch(() => undefined);
    if (stats?.isFile()) packed.push(join(folder, name));
  }
  return packed;
}

/** Reads a file in pieces, up to `most` bytes; the next piece overwrites the one before. */
export async function* readPieces(
  file: string,
  most = Number.POSITIVE_INFINITY,
): AsyncGenerator<Uint8Array> {
  const handle = await open(file);
  try {
    const buffer = new Uint8Array(Math.min(PIECE_BYTES, most));
    for (let length = 0; length < most; ) {
      const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, most - length));
      if (bytesRead === 0) return;
      length += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}

/** Reads bytes of the file from its chunks in the folder. Throws a CheckpointError about a chunk that is lost. */
export async function* readRange(
  folder: string,
  { bytes, chunkBytes, chunks }: FileManifest,
  from: number,
  to: number,
): AsyncGenerator<Uint8Array> {
  const end = Math.min(to, bytes);
  for (let at = from; at < end; ) {
    const index = Math.floor(at / chunkBytes);
    const start = at - index * chunkBytes;
    const part = new Uint8Array(Math.min(chunkBytes - start, end - at));
    const { sha256 } = chunks[index]!;
    try {
      const handle = await open(chunkFile(folder, sha256));
      try {
        const { bytesRead } = await handle.read(part, 0, part.length, start);
        if (bytesRead < part.length) throw new RangeError('the chunk is too short');
      } finally {
        await handle.close();
      }
    } catch (cause) {
      throw lostChunk(sha256, folder, cause);
    }
    at += part.length;
    yield part;
  }
}

/** Reads bytes of the file from its chunks into one array. Throws as `readRange` does. */
export async function readBytes(
  folder: string,
  manifest: FileManifest,
  from: number,
  to: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const all = new Uint8Array(Math.max(0, Math.min(to, manifest.bytes) - from));
  let at = 0;
  for await (const part of readRange(folder, manifest, from, to)) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Returns a folder as a source and mirror of chunks; the manifest is found by its hash too. */
export const createFolderSource = (folder: string): ChunkSource => ({
  name: folder,
  async read(blob, signal) {
    const file = await fileOf(folder, blob);
    if (file === undefined) return undefined;
    return createReadStream(file, { signal, end: blob.bytes }) as AsyncIterable<Uint8Array>;
  },
  async store(blob, bytes) {
    if ((await pieceFileState(folder, blob)) === 'there') return;
    const part = join(folder, `.${blob.sha256}.part`);
    try {
      await mkdir(folder, { recursive: true });
      await writeFile(part, bytes, { mode: 0o600 });
      await rename(part, chunkFile(folder, blob.sha256));
    } catch (cause) {
      await rm(part, { force: true }).catch(() => undefined);
      throw new SourceError(`${folder} does not take a chunk`, { cause });
    }
  },
});

/** Returns the file of a chunk, or of the manifest if that has the hash. */
async function fileOf(folder: string, { sha256, offset }: Blob): Promise<string | undefined> {
  const isFile = async (path: string, most: number) => {
    const stats = await lstat(path).catch(() => undefined);
    return stats?.isFile() === true && stats.size <= most;
  };
  const chunkPath = chunkFile(folder, sha256);
  if (await isFile(chunkPath, Number.POSITIVE_INFINITY)) return chunkPath;
  const manifest = join(folder, MANIFEST_FILE);
  if (offset !== undefined || !(await isFile(manifest, MOST_MANIFEST_BYTES))) return undefined;
  const text = await readFile(manifest).catch(() => undefined);
  return text && toHex(nativeSha256(text)) === sha256 ? manifest : undefined;
}
