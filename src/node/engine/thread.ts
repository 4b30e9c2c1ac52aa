/** Entry point of a trainer thread that runs on onnxruntime-node. */
import { parentPort } from 'node:worker_threads';
import { serveTrainer } from '../../trainer/serve.ts';
import { openStored } from '../data/token-file.ts';
import { nodeRuntime } from './sessions.ts';

const port = parentPort;
const serve = serveTrainer({ ort: nodeRuntime, openStored }, (answer, transfer) =>
  port?.postMessage(answer, transfer),
);
port?.on('message', serve);
