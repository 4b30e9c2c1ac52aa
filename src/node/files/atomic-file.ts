/** Writes files atomically, reads and hashes them, and reports what is at a path. */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CheckpointError } from '../../base/errors.ts';
import { shareReporter } from '../../base/slow.ts';

/**
 * Replaces a file atomically: after a crash it holds the old bytes or the new ones. Throws a CheckpointError
 * (`run/write`) if it cannot be written.
 */
export async function writeAtomically(
  file: string,
  bytes: Uint8Array | AsyncIterable<Uint8Array>,
): Promise<void> {
  const temporary = `${file}.tmp`;
  try {
    const handle = await open(temporary, 'w', 0o600);
    try {
      await writeFile(handle, bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
    await syncFolder(dirname(file));
  } catch (cause) {
    await rm(temporary, { force: true }).catch(() => undefined);
    // the bytes may come from other files
    throw cause instanceof CheckpointError ? cause : cannotWrite(file, cause);
  }
}

/** Syncs the folder of a renamed file, which could return under its old name; not every system has this. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

export const cannotWrite = (file: string, cause: unknown): CheckpointError =>
  new CheckpointError('run/write', `cannot write ${file} (${(cause as Error).message})`, {
    hint: 'free disk space and run the same command again; what was saved before is intact',
    cause,
  });

const PIECE = 2 ** 16;

export const readInPieces = (path: string): AsyncIterable<Uint8Array> =>
  createReadStream(path, { highWaterMark: PIECE }) as AsyncIterable<Uint8Array>;

export interface HashOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called with the progress if the file takes longer than two seconds. */
  onNotice?(message: string): void;
}

/** Returns the SHA-256 of a file in lowercase hex. */
export async function hashFile(
  path: string,
  { signal, onNotice = () => undefined }: HashOptions = {},
): Promise<string> {
  const hash = createHash('sha256');
  const report = shareReporter(`hashing ${path}`, onNotice);
  const { size } = await stat(path);
  let have = 0;
  for await (const piece of readInPieces(path)) {
    signal?.throwIfAborted();
    hash.update(piece);
    have += piece.length;
    report(have, size);
  }
  return hash.digest('hex');
}

/** Returns the type of the entry at a path; undefined if it is missing or unreadable. */
export const kindOf = (path: string): Promise<'file' | 'folder' | 'other' | undefined> =>
  stat(path).then(
    (stats) => (stats.isFile() ? 'file' : stats.isDirectory() ? 'folder' : 'other'),
    () => undefined,
  );
