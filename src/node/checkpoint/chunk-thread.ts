/** Entry point of a worker thread that runs chunk tasks (`chunk-work.ts`), one after another. */
import { parentPort } from 'node:worker_threads';
import { type ChunkTask, runTask } from './chunk-work.ts';

parentPort?.on('message', (task: ChunkTask) => {
  runTask(task).then(
    (hashes) => parentPort?.postMessage({ hashes }),
    (error: NodeJS.ErrnoException) =>
      parentPort?.postMessage({ error: error.message, code: error.code }),
  );
});
