/**
 * CPU-heavy work on chunk files: hashing, and computing parity or lost chunks. Small files are processed in the calling
 * thread, larger ones in worker threads with one task at a time each.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import type { Worker } from 'node:worker_threads';
import { CheckpointError } from '../../base/errors.ts';
import {
  type Blake3,
  createBlake3,
  createDigester,
  type Digester,
  type FileManifest,
  type Hashes,
  type Piece,
  RootHasher,
} from '../../network/chunks/manifest.ts';
import { combine as combineShards, type Matrix } from '../../network/chunks/reed-solomon.ts';
import type { Digest } from '../../run/ids.ts';
import { createNativeSha256 } from '../native/sha256.ts';
import { startThread } from '../start-thread.ts';
import { chunkFile, pieceFileState, readPieces } from './folder.ts';

/** Hashes one file: SHA-256 and BLAKE3, or BLAKE3 alone. */
interface HashTask {
  readonly kind: 'hash' | 'blake3';
  readonly file: string;
  /** Expected length; one byte more is read, to detect a longer file. */
  readonly bytes: number;
}

/** Writes the sums of sources to targets, each cut to its length; shorter sources are padded with zeros. */
interface CombineTask {
  readonly kind: 'combine';
  readonly matrix: Matrix;
  readonly sources: readonly string[];
  readonly bytes: number;
  readonly targets: readonly { readonly file: string; readonly bytes: number }[];
}

/** Hashes the chunk files of one file in order. A final task without a file asks for the hashes and the Merkle root. */
interface FileHashTask {
  readonly kind: 'whole';
  readonly name: string;
  readonly file: string | undefined;
}

export type ChunkTask = HashTask | CombineTask | FileHashTask;

/** Hashes of a file; those that were not requested are empty. */
export interface FileHashes extends Hashes {
  readonly bytes: number;
  /** Merkle root of a file; null if it is too long for chunk events. */
  readonly root?: Digest | null;
}

export interface ChunkWorkers {
  /** Runs a task. Rejects with an error of the disk. */
  run(task: ChunkTask): Promise<readonly FileHashes[]>;
  close(): Promise<void>;
}

/** Files with fewer bytes are processed without threads: starting one would take longer. */
const WORTH_THREADS = 2 ** 26;
const MOST_THREADS = 8;

/** Starts workers for `bytes` bytes of files; by default one thread fewer than there are cores. */
export function startChunkWorkers(bytes: number, threads = defaultThreads(bytes)): ChunkWorkers {
  const idle: Worker[] = [];
  const all = new Set<Worker>();
  const queue: (() => void)[] = [];
  const start = () => {
    const worker = startThread('checkpoint/chunk-thread');
    worker.unref();
    all.add(worker);
    return worker;
  };
  const next = () => (idle.length > 0 || all.size < threads) && queue.shift()?.();
  const restoreSent = (worker: Worker) => {
    idle.push(worker);
    next();
  };
  return {
    run: (task) =>
      threads === 0
        ? runTask(task)
        : new Promise((resolve, reject) => {
            queue.push(() => {
              const worker = idle.pop() ?? start();
              void ask(worker, task)
                .then(resolve, reject)
                .finally(() => restoreSent(worker));
            });
            next();
          }),
    close: async () => {
      queue.length = 0;
      for (const worker of all) await worker.terminate();
    },
  };
}

const defaultThreads = (bytes: number): number =>
  bytes < WORTH_THREADS ? 0 : Math.min(MOST_THREADS, Math.max(1, availableParallelism() - 1));

type Answer =
  | { readonly hashes: readonly FileHashes[] }
  | { readonly error: string; code?: string };

function ask(worker: Worker, task: ChunkTask): Promise<readonly FileHashes[]> {
  return new Promise((resolve, reject) => {
    const settle = (answer: Answer) => {
      worker.off('message', settle).off('error', fail).off('exit', end).unref();
      if ('hashes' in answer) resolve(answer.hashes);
      else reject(Object.assign(new Error(answer.error), { code: answer.code }));
    };
    const fail = (cause: Error) => settle({ error: cause.message });
    const end = (code: number) =>
      reject(
        new CheckpointError('checkpoint/thread', `a thread ended with code ${code}`, {
          hint: 'there may be too little memory: use --threads 0 to work without threads',
        }),
      );
    worker.ref();
    worker.on('message', settle).on('error', fail).on('exit', end).postMessage(task);
  });
}

/** Returns the hashes of the file, or of each target. */
export async function runTask(task: ChunkTask): Promise<readonly FileHashes[]> {
  if (task.kind === 'combine') return combine(task);
  return [await (task.kind === 'whole' ? hashOn(task) : hashFile(task))];
}

/** SHA-256 and BLAKE3 with this machine's fastest code. */
export const nativeDigester = (): Promise<Digester> =>
  createDigester(createNativeSha256, createNativeBlake3);

/** Hashes a file piece by piece: SHA-256, BLAKE3 and the Merkle root that certified outcomes name. */
export interface FileHasher {
  update(piece: Uint8Array): void;
  digest(): FileHashes & { readonly root: Digest | null };
}

export async function createFileHasher(): Promise<FileHasher> {
  const digester = await nativeDigester();
  const tree = new RootHasher(createNativeSha256);
  let bytes = 0;
  return {
    update(piece) {
      digester.update(piece);
      tree.update(piece);
      bytes += piece.length;
    },
    digest: () => ({ ...digester.digest(), root: tree.digest(), bytes }),
  };
}

/** Reports whether the hashes are those of the manifest. */
export const isFileOf = (
  { sha256, blake3, root, bytes }: FileHashes,
  manifest: FileManifest,
): boolean =>
  sha256 === manifest.sha256 &&
  blake3 === manifest.blake3 &&
  root === manifest.root &&
  bytes === manifest.bytes;

/** Hashers of unfinished files, by name. */
const hashers = new Map<string, FileHasher>();

async function hashOn({ name, file }: FileHashTask): Promise<FileHashes> {
  const hasher = hashers.get(name) ?? (await createFileHasher());
  if (file === undefined) {
    hashers.delete(name);
    return hasher.digest();
  }
  hashers.set(name, hasher);
  for await (const piece of readPieces(file)) hasher.update(piece);
  return { bytes: 0, sha256: '', blake3: '' };
}

async function hashFile({ kind, file, bytes }: HashTask): Promise<FileHashes> {
  const digester = idle[kind].pop() ?? (await makers[kind]());
  let length = 0;
  for await (const piece of readPieces(file, bytes + 1)) {
    digester.update(piece);
    length += piece.length;
  }
  const hashes = { ...digester.digest(), bytes: length };
  idle[kind].push(digester);
  return hashes;
}

/** Digesters for reuse: creating one takes longer than hashing a short chunk. */
const idle: Readonly<Record<HashTask['kind'], Digester[]>> = { hash: [], blake3: [] };
const makers: Readonly<Record<HashTask['kind'], () => Promise<Digester>>> = {
  hash: nativeDigester,
  blake3: async () => {
    const { update, digest } = await createNativeBlake3();
    return { update, digest: () => ({ sha256: '', blake3: digest() }) };
  },
};

/** Maximum bytes of all sources and targets in memory at once. */
const MOST_IN_MEMORY = 2 ** 23;

async function combine({ matrix, sources, targets, bytes }: CombineTask): Promise<FileHashes[]> {
  const files: FileHandle[] = [];
  try {
    for (const file of sources) files.push(await open(file, 'r'));
    for (const { file } of targets) files.push(await open(file, 'w', 0o600));
    const [from, to] = [files.slice(0, sources.length), files.slice(sources.length)];
    const digesters = await Promise.all(targets.map(nativeDigester));
    const step = Math.max(2 ** 12, Math.floor(MOST_IN_MEMORY / (from.length + to.length)));
    const buffers = () => new Uint8Array(Math.min(step, bytes));
    const read = from.map(buffers);
    const sums = to.map(buffers);
    for (let at = 0; at < bytes; at += step) {
      const length = Math.min(step, bytes - at);
      const cut = (buffer: Uint8Array) => buffer.subarray(0, length);
      for (const [i, handle] of from.entries()) await readFully(handle, cut(read[i]!), at);
      combineShards(matrix, read.map(cut), sums.map(cut));
      for (const [i, handle] of to.entries()) {
        const most = targets[i]!.bytes - at;
        const piece = sums[i]!.subarray(0, Math.min(length, Math.max(0, most)));
        await handle.writeFile(piece);
        digesters[i]!.update(piece);
      }
    }
    return targets.map((target, i) => ({ ...digesters[i]!.digest(), bytes: target.bytes }));
  } finally {
    for (const handle of files) await handle.close();
  }
}

/** Fills the buffer from the file at an offset, with zeros after its end. */
async function readFully(handle: FileHandle, buffer: Uint8Array, at: number): Promise<void> {
  let have = 0;
  while (have < buffer.length) {
    const { bytesRead } = await handle.read(buffer, have, buffer.length - have, at + have);
    if (bytesRead === 0) break;
    have += bytesRead;
  }
  buffer.fill(0, have);
}

/** Reads a chunk and reports whether it is intact, lost or changed; a quick check compares only BLAKE3. */
export async function judge(
  workers: ChunkWorkers,
  folder: string,
  piece: Piece,
  isQuick = false,
): Promise<'whole' | 'lost' | 'changed'> {
  const state = await pieceFileState(folder, piece);
  if (state !== 'there') return state;
  const file = chunkFile(folder, piece.sha256);
  const kind = isQuick ? 'blake3' : 'hash';
  const read = await workers.run({ kind, file, bytes: piece.bytes }).catch(() => undefined);
  const hashes = read?.[0];
  if (hashes === undefined) return 'lost';
  const isSame = hashes.blake3 === piece.blake3 && (isQuick || hashes.sha256 === piece.sha256);
  return isSame && hashes.bytes === piece.bytes ? 'whole' : 'changed';
}

/** Works on all items, at most `atOnce` at a time; returns the results in order. */
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

type Native = Pick<typeof import('@napi-rs/blake-hash'), 'Blake3Hasher'>;

let native: Promise<Native | undefined> | undefined;

/**
 * Creates a BLAKE3 hasher: native code, ten times as fast, if the optional package of this platform is installed; else
 * WebAssembly.
 */
export async function createNativeBlake3(): Promise<Blake3> {
  native ??= import('@napi-rs/blake-hash').catch(() => undefined);
  const addon = await native;
  if (addon === undefined) return createBlake3();
  let hasher = new addon.Blake3Hasher();
  return {
    update: ({ buffer, byteOffset, length }) => {
      hasher.update(Buffer.from(buffer, byteOffset, length));
    },
    digest: () => {
      const digest = hasher.digest('hex');
      hasher = new addon.Blake3Hasher();
      return digest;
    },
  };
}
