/** A folder of chunks as a place to read from and to store in: what another disk, a network share or a mounted bucket is. */
import { createReadStream } from 'node:fs';
import { lstat, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { toHex } from '../../base/bytes.ts';
import { MOST_MANIFEST_BYTES } from '../../network/chunks/manifest.ts';
import { type Blob, type ChunkSource, SourceError } from '../../network/chunks/source.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { chunkFile, lookFor, MANIFEST_FILE } from './folder.ts';

/** Reads and stores chunks by their hash; the manifest by its own. */
export const createFolderSource = (folder: string): ChunkSource => ({
  name: folder,
  async read(blob, signal) {
    const file = await fileOf(folder, blob);
    return file === undefined
      ? undefined
      : (createReadStream(file, { signal, end: blob.bytes }) as AsyncIterable<Uint8Array>);
  },
  async store(blob, bytes) {
    if ((await lookFor(folder, blob)) === 'there') return;
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

/** The file of a chunk, or the manifest where that has the hash. */
async function fileOf(folder: string, { sha256, offset }: Blob): Promise<string | undefined> {
  const isFile = async (path: string, most: number) => {
    const stats = await lstat(path).catch(() => undefined);
    return stats?.isFile() === true && stats.size <= most;
  };
  const own = chunkFile(folder, sha256);
  if (await isFile(own, Number.POSITIVE_INFINITY)) return own;
  const manifest = join(folder, MANIFEST_FILE);
  if (offset !== undefined || !(await isFile(manifest, MOST_MANIFEST_BYTES))) return undefined;
  const text = await readFile(manifest).catch(() => undefined);
  return text && toHex(nativeSha256(text)) === sha256 ? manifest : undefined;
}
