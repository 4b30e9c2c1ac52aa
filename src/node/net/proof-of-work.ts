/** Computes proof of work (NIP-13) in a worker thread, so that it does not block this one. */
import { utf8 } from '../../base/bytes.ts';
import type { EventDraft } from '../../network/event.ts';
import {
  MAX_WORK_BITS,
  MAX_WORK_BYTES,
  type Mine,
  type WorkDraft,
} from '../../network/proof-of-work.ts';
import { startThread } from '../start-thread.ts';

export interface WorkOrder {
  readonly draft: WorkDraft;
  readonly bits: number;
}

/** Mines a draft in a new thread. Throws a RangeError if too much is requested, or `signal.reason`. */
export const mine: Mine = async (draft, bits, signal) => {
  if (bits > MAX_WORK_BITS) {
    throw new RangeError(`${bits} bits of work requested, ${MAX_WORK_BITS} is the maximum`);
  }
  const bytes = utf8(JSON.stringify(draft)).length;
  if (bytes > MAX_WORK_BYTES) {
    throw new RangeError(`work on ${bytes} bytes requested, ${MAX_WORK_BYTES} is the maximum`);
  }
  signal.throwIfAborted();
  const thread = startThread('net/proof-of-work-thread');
  let abort = () => {};
  try {
    return await new Promise<EventDraft>((resolve, reject) => {
      abort = () => reject(signal.reason);
      signal.addEventListener('abort', abort);
      thread.once('message', resolve);
      thread.once('error', reject);
      thread.once('exit', (code) => reject(new Error(`the work ended with code ${code}`)));
      thread.postMessage({ draft, bits } satisfies WorkOrder);
    });
  } finally {
    signal.removeEventListener('abort', abort);
    await thread.terminate();
  }
};
