/** Who does the work on chunk files: this thread where there is little, or threads beside it, each with one task at a time. */

import { type FileHandle, open } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import type { Worker } from 'node:worker_threads';
import { toHex } from '../../base/bytes.ts';
import { CheckpointError } from '../../base/errors.ts';
import type { Hashes } from '../../network/chunks/manifest.ts';
import { createDigester, type Digester, RootHasher } from '../../network/chunks/manifest.ts';
import { combine as combineShards, type Matrix } from '../../network/chunks/reed-solomon.ts';
import type { Digest } from '../../run/ids.ts';
import { createNativeBlake3 } from '../native/blake3.ts';
import { createNativeSha256 } from '../native/sha256.ts';
import { startThread } from '../start-thread.ts';

export interface ChunkWorkers {
  /** Rejects with what the disk says. */
  run(task: ChunkTask): Promise<readonly Found[]>;
  close(): Promise<void>;
}

/** Below it a thread takes longer to start than the work does. */
const WORTH_THREADS = 2 ** 26;
const MOST_THREADS = 8;

/** Workers for files of that many bytes together; `threads` beside this one, by default one less than there are cores. */
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
  const giveBack = (worker: Worker) => {
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
              ask(worker, task)
                .then(resolve, reject)
                .finally(() => giveBack(worker));
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

type Answer = { readonly found: readonly Found[] } | { readonly error: string; code?: string };

function ask(worker: Worker, task: ChunkTask): Promise<readonly Found[]> {
  return new Promise((resolve, reject) => {
    const settle = (answer: Answer) => {
      worker.off('message', settle).off('error', fail).off('exit', end).unref();
      if ('found' in answer) resolve(answer.found);
      else reject(Object.assign(new Error(answer.error), { code: answer.code }));
    };
    const fail = (cause: Error) => settle({ error: cause.message });
    const end = (code: number) =>
      reject(
        new CheckpointError('checkpoint/thread', `a thread ended with code ${code}`, {
          hint: 'is there enough memory? say --threads 0 to work without threads',
        }),
      );
    worker.ref();
    worker.on('message', settle).on('error', fail).on('exit', end).postMessage(task);
  });
}

/** What is to be hashed: both names, or BLAKE3 alone. */
export interface HashTask {
  readonly kind: 'hash' | 'blake3';
  readonly file: string;
  /** Reading ends after one byte more. */
  readonly bytes: number;
}

export interface CombineTask {
  readonly kind: 'combine';
  readonly matrix: Matrix;
  readonly sources: readonly string[];
  /** Shorter sources count as if zeros followed. */
  readonly bytes: number;
  /** Written anew, each to its length. */
  readonly targets: readonly { readonly file: string; readonly bytes: number }[];
}

/** One file after another of a whole that has this name, and at last, without a file, what its SHA-256 and its root are. */
export interface WholeTask {
  readonly kind: 'whole';
  readonly name: string;
  readonly file: string | undefined;
}

export type ChunkTask = HashTask | CombineTask | WholeTask;

/** What a file was found to be; `sha256` is empty where it was not asked for. */
export interface Found extends Hashes {
  readonly bytes: number;
  /** Of a whole, as outcomes of certified runs name it. */
  readonly root?: Digest | null;
}

const PIECE = 2 ** 20;
/** Of all sources of a sum together. */
const MOST_IN_MEMORY = 2 ** 23;

/** The hashes of the file, or of each target. */
export const runTask = (task: ChunkTask): Promise<readonly Found[]> => {
  if (task.kind === 'combine') return combine(task);
  const found = task.kind === 'whole' ? hashOn(task) : hashFile(task);
  return found.then((each) => [each]);
};

/** Wholes that are begun. */
const wholes = new Map<
  string,
  { bytes: number; sha256: ReturnType<typeof createNativeSha256>; tree: RootHasher }
>();

async function hashOn({ name, file }: WholeTask): Promise<Found> {
  const begun = wholes.get(name);
  const whole = begun ?? {
    bytes: 0,
    sha256: createNativeSha256(),
    tree: new RootHasher(createNativeSha256),
  };
  if (!begun) wholes.set(name, whole);
  if (file === undefined) {
    wholes.delete(name);
    const { bytes, tree, sha256 } = whole;
    return { bytes, root: tree.digest(), sha256: toHex(sha256.digest()), blake3: '' };
  }
  const handle = await open(file);
  try {
    const buffer = new Uint8Array(PIECE);
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, buffer.length);
      if (bytesRead === 0) break;
      const piece = buffer.subarray(0, bytesRead);
      whole.sha256.update(piece);
      whole.tree.update(piece);
      whole.bytes += bytesRead;
    }
  } finally {
    await handle.close();
  }
  return { bytes: whole.bytes, sha256: '', blake3: '' };
}

async function hashFile({ kind, file, bytes }: HashTask): Promise<Found> {
  const handle = await open(file);
  const digester = idle[kind].pop() ?? (await makers[kind]());
  try {
    const buffer = new Uint8Array(Math.min(PIECE, bytes + 1));
    let length = 0;
    while (length <= bytes) {
      const { bytesRead } = await handle.read(buffer, 0, buffer.length);
      if (bytesRead === 0) break;
      digester.update(buffer.subarray(0, bytesRead));
      length += bytesRead;
    }
    const found = { ...digester.digest(), bytes: length };
    idle[kind].push(digester);
    return found;
  } finally {
    await handle.close();
  }
}

/** Digesters that hash nothing now: to make one takes longer than to hash a short chunk. */
const idle: Readonly<Record<HashTask['kind'], Digester[]>> = { hash: [], blake3: [] };
const makers: Readonly<Record<HashTask['kind'], () => Promise<Digester>>> = {
  hash: () => createDigester(createNativeSha256, createNativeBlake3),
  blake3: async () => {
    const { update, digest } = await createNativeBlake3();
    return { update, digest: () => ({ sha256: '', blake3: digest() }) };
  },
};

async function combine({ matrix, sources, targets, bytes }: CombineTask): Promise<Found[]> {
  const files: FileHandle[] = [];
  const opened = async (file: string, flags: string) => {
    const handle = await open(file, flags, 0o600);
    files.push(handle);
    return handle;
  };
  try {
    const from: FileHandle[] = [];
    for (const file of sources) from.push(await opened(file, 'r'));
    const to: { handle: FileHandle; bytes: number; digester: Digester }[] = [];
    for (const { file, bytes: length } of targets) {
      const digester = await createDigester(createNativeSha256, createNativeBlake3);
      to.push({ handle: await opened(file, 'w'), bytes: length, digester });
    }
    const step = Math.max(2 ** 12, Math.floor(MOST_IN_MEMORY / (from.length + to.length)));
    const made = (count: number) =>
      Array.from({ length: count }, () => new Uint8Array(Math.min(step, bytes)));
    const read = made(from.length);
    const sums = made(to.length);
    for (let at = 0; at < bytes; at += step) {
      const length = Math.min(step, bytes - at);
      for (const [i, handle] of from.entries()) await readFully(handle, read[i]!, at, length);
      combineShards(
        matrix,
        read.map((each) => each.subarray(0, length)),
        sums.map((each) => each.subarray(0, length)),
      );
      for (const [i, { handle, bytes: most, digester }] of to.entries()) {
        const piece = sums[i]!.subarray(0, Math.min(length, Math.max(0, most - at)));
        await handle.writeFile(piece);
        digester.update(piece);
      }
    }
    return to.map(({ digester, bytes: length }) => ({ ...digester.digest(), bytes: length }));
  } finally {
    for (const handle of files) await handle.close();
  }
}

/** Fills the buffer from the file, with zeros behind its end. */
async function readFully(
  handle: FileHandle,
  buffer: Uint8Array,
  at: number,
  length: number,
): Promise<void> {
  let have = 0;
  while (have < length) {
    const { bytesRead } = await handle.read(buffer, have, length - have, at + have);
    if (bytesRead === 0) break;
    have += bytesRead;
  }
  buffer.fill(0, have, length);
}
