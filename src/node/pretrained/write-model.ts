/** Writes the files of a model, each folder or file whole or not at all: what is there was finished. */
import { mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError, ConfigError } from '../../base/errors.ts';
import type { OutFile } from '../../pretrained/export/folders.ts';

export interface WriteOptions {
  readonly onBytes?: (bytes: number) => void;
  readonly signal?: AbortSignal;
}

/** Throws a ConfigError (`export/exists`) where something is already at the path; an empty folder is not. */
export async function assertFree(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (!found) return;
  if (found.isDirectory() && (await readdir(path)).length === 0) return;
  const what = found.isDirectory() ? 'is a folder that holds files' : 'is a file already';
  throw new ConfigError('export/exists', `${path} ${what}`, {
    hint: 'name a path where nothing is yet, or move that away',
  });
}

/** Writes a folder with these files, and says how many bytes they are. */
export const writeFolder = (
  folder: string,
  files: readonly OutFile[],
  options: WriteOptions = {},
): Promise<number> =>
  whole(folder, async (part) => {
    await mkdir(part);
    let bytes = 0;
    const onBytes = (of: number) => options.onBytes?.(bytes + of);
    for (const file of files) {
      bytes += await write(join(part, file.name), file, { ...options, onBytes });
    }
    await rmdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
    return bytes;
  });

export const writeFile = (
  path: string,
  file: OutFile,
  options: WriteOptions = {},
): Promise<number> => whole(path, (part) => write(part, file, options));

/** Under another name until it is finished. */
async function whole(path: string, work: (part: string) => Promise<number>): Promise<number> {
  await assertFree(path);
  const part = `${path}.part`;
  try {
    // of a command that was ended half-way
    if ((await stat(part).catch(() => undefined))?.isDirectory()) await remove(part);
    const bytes = await work(part);
    await rename(part, path);
    return bytes;
  } catch (cause) {
    await remove(part).catch(() => undefined);
    throw cause instanceof Error && 'errno' in cause ? cannotWrite(path, cause) : cause;
  }
}

const cannotWrite = (path: string, cause: Error): CheckpointError =>
  new CheckpointError('export/write', `cannot write ${path} (${cause.message})`, {
    hint: 'make room on the disk, or name a place where you may write, and repeat the command',
    cause,
  });

const remove = (path: string): Promise<void> => rm(path, { recursive: true, force: true });

async function write(
  path: string,
  { pieces }: OutFile,
  { onBytes, signal }: WriteOptions,
): Promise<number> {
  const handle = await open(path, 'w');
  try {
    let bytes = 0;
    for await (const piece of pieces()) {
      signal?.throwIfAborted();
      // a write may take less than it is given
      for (let at = 0; at < piece.length; ) {
        at += (await handle.write(piece, at)).bytesWritten;
      }
      bytes += piece.length;
      onBytes?.(bytes);
    }
    await handle.sync();
    return bytes;
  } finally {
    await handle.close();
  }
}
