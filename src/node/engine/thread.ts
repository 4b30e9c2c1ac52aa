/** The trainer thread of Node.js: the shared one, on onnxruntime-node. */
import { parentPort } from 'node:worker_threads';
import { serveTrainer } from '../../trainer/serve.ts';
import { openStored } from '../data/token-file.ts';
import { nodeRuntime } from './sessions.ts';

const port = parentPort;
const serve = serveTrainer({ ort: nodeRuntime, openStored }, (answer, handOver) =>
  port?.postMessage(answer, handOver),
);
port?.on('message', serve);
