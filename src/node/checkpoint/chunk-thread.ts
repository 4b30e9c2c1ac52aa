/** A thread that does work on chunk files, one task after another, until it is ended. */
import { parentPort } from 'node:worker_threads';
import { type ChunkTask, runTask } from './chunk-work.ts';

parentPort?.on('message', (task: ChunkTask) => {
  runTask(task).then(
    (found) => parentPort?.postMessage({ found }),
    (error: NodeJS.ErrnoException) =>
      parentPort?.postMessage({ error: error.message, code: error.code }),
  );
});
