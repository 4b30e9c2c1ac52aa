/** A folder that holds a chunked file: `manifest.json`, and one file per chunk called by its SHA-256. */
import { lstat, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError } from '../../base/errors.ts';
import {
  type FileManifest,
  MOST_MANIFEST_BYTES,
  type Piece,
  parseManifest,
} from '../../network/chunks/manifest.ts';
import type { Digest } from '../../run/ids.ts';

export const MANIFEST_FILE = 'manifest.json';

/** Where a chunk of that address lies. */
export const chunkFile = (folder: string, sha256: Digest): string => join(folder, sha256);

/** A chunk that is not where it should be. */
export const lostChunk = (sha256: Digest, folder: string, cause: unknown): CheckpointError =>
  new CheckpointError('checkpoint/lost', `chunk ${sha256} is not in ${folder}`, {
    hint: '`nostrain checkpoint unpack --mend` restores it, or `fetch` brings it',
    cause,
  });

/** The manifest of a folder; throws a CheckpointError that says what is wrong with it. */
export const readManifest = (folder: string): Promise<FileManifest> =>
  readManifestFile(join(folder, MANIFEST_FILE));

/** The manifest in a file. */
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

/** The manifest in a text from `where`. */
export function orBadManifest(where: string, text: string): FileManifest {
  const parsed = parseManifest(text);
  if (parsed.ok) return parsed.value;
  const { at, message } = parsed.issue;
  throw new CheckpointError('checkpoint/bad-manifest', `${where}: ${at}: ${message}`, {
    hint: 'take the manifest from whoever packed the file; its SHA-256 is its name',
  });
}

async function readShort(file: string): Promise<string> {
  const handle = await open(file);
  try {
    const stats = await handle.stat();
    if (stats.isFile() && stats.size <= MOST_MANIFEST_BYTES) return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
  throw new CheckpointError('checkpoint/bad-manifest', `${file} is no manifest`, {
    hint: `a manifest is a file of at most ${MOST_MANIFEST_BYTES} bytes`,
  });
}

/** How a chunk lies in the folder, before it is read: there with its length, not there, or something else under its name. */
export async function lookFor(
  folder: string,
  { sha256, bytes }: Pick<Piece, 'sha256' | 'bytes'>,
): Promise<'there' | 'lost' | 'changed'> {
  const stats = await lstat(chunkFile(folder, sha256)).catch(() => undefined);
  if (!stats) return 'lost';
  return stats.isFile() && stats.size === bytes ? 'there' : 'changed';
}

/** Folders with a manifest: the one named, or those right inside it. */
export async function findPacked(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
    throw new CheckpointError('checkpoint/no-folder', `${folder} cannot be read`, {
      hint: 'name a folder that is there',
      cause,
    });
  });
  if (entries.some(({ name }) => name === MANIFEST_FILE)) return [folder];
  const inside = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  const found: string[] = [];
  for (const name of inside.sort()) {
    const stats = await lstat(join(folder, name, MANIFEST_FILE)).catch(() => undefined);
    if (stats?.isFile()) found.push(join(folder, name));
  }
  return found;
}
