/** Who does the work on chunk files: this thread where there is little, or threads beside it, each with one task at a time. */
import { availableParallelism } from 'node:os';
import type { Worker } from 'node:worker_threads';
import { CheckpointError } from '../../base/errors.ts';
import { startThread } from '../start-thread.ts';
import { type ChunkTask, type Found, runTask } from './chunk-task.ts';

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
