/** Entry point of a thread that mines one draft and posts the result. */
import { parentPort } from 'node:worker_threads';
import { mineDraft } from '../../network/proof-of-work.ts';
import { nativeSha256Text } from '../native/sha256.ts';
import type { WorkOrder } from './proof-of-work.ts';

parentPort?.once('message', ({ draft, bits }: WorkOrder) => {
  parentPort?.postMessage(mineDraft(draft, bits, nativeSha256Text));
});
