/**
 * Stores the files of base models in the private file system of this origin (OPFS), each under its SHA-256. They are
 * read in ranges, so that a file is never in memory as a whole. Only Web Workers can write there.
 */
import { CheckpointError } from '../base/errors.ts';
import type { PartFile } from '../network/chunks/resume-download.ts';
import type { ByteSource } from '../pretrained/weights.ts';
import type { BaseFile } from '../run/spec/start.ts';

/** A stored file, complete or not. */
export interface CachedFile extends PartFile {
  /** Opens the file for reading; `name` is for messages. */
  open(name: string): Promise<ByteSource>;
}

export interface BaseCache {
  file(wanted: BaseFile): CachedFile;
  /** Runs `work` when no other tab of this browser downloads this file. */
  alone<T>(wanted: BaseFile, work: () => Promise<T>): Promise<T>;
  /** Returns the bytes that this origin may still store; undefined if the browser does not say. */
  free(): Promise<number | undefined>;
}

/** Opens the cache. Throws `tab/storage` if the browser has no private file system, as in some private windows. */
export async function openBaseCache(): Promise<BaseCache> {
  const root = await navigator.storage.getDirectory().catch((cause: unknown) => {
    throw new CheckpointError('tab/storage', 'the browser has no storage for large files', {
      hint: 'open the link in a normal window, not a private one',
      cause,
    });
  });
  const folder = await root.getDirectoryHandle('base', { create: true });
  return {
    file: (wanted) => cachedFile(folder, wanted),
    alone: (wanted, work) => navigator.locks.request(`nostrain/base/${wanted.sha256}`, work),
    free: async () => {
      const { quota, usage = 0 } = await navigator.storage.estimate();
      return quota === undefined ? undefined : quota - usage;
    },
  };
}

function cachedFile(
  folder: FileSystemDirectoryHandle,
  { sha256, bytes: length }: BaseFile,
): CachedFile {
  const read = async () => (await folder.getFileHandle(sha256)).getFile();
  return {
    size: () =>
      read().then(
        ({ size }) => size,
        () => 0,
      ),
    open: async (name) => sourceOfBlob(name, await read()),
    remove: () => folder.removeEntry(sha256).catch(() => undefined),
    async write(from, pieces) {
      const handle = await folder.getFileHandle(sha256, { create: true });
      const access = await handle.createSyncAccessHandle();
      let at = from;
      try {
        access.truncate(from);
        for await (const piece of pieces) at += access.write(piece, { at });
        access.flush();
      } catch (error) {
        throw error instanceof DOMException ? storageFull(at, length, error) : error;
      } finally {
        access.close();
      }
    },
  };
}

const sourceOfBlob = (name: string, blob: Blob): ByteSource => ({
  name,
  size: blob.size,
  read: async (from, to) => new Uint8Array(await blob.slice(from, to).arrayBuffer()),
});

/** Returns the error for storage that ends before the file does. */
export const storageFull = (have: number, length: number, cause?: unknown): CheckpointError =>
  new CheckpointError(
    'tab/quota',
    `this browser stores ${megabytes(have)} of the base, which has ${megabytes(length)}`,
    {
      hint:
        'free disk space or clear the data of other sites, and press the button again: ' +
        'the download resumes',
      cause,
    },
  );

export const megabytes = (bytes: number): string => `${Math.ceil(bytes / 1e6)} MB`;
