/** The main thread's end of the trainer thread: typed calls, and every pending one fails when the thread does. */
import { TrainingError } from '../base/errors.ts';
import { startThread } from './start-thread.ts';
import type { Answer, CallName, Calls } from './trainer-messages.ts';

export interface TrainerLink {
  call<K extends CallName>(call: K, ask: Calls[K]['ask']): Promise<Calls[K]['answer']>;
  close(): Promise<void>;
}

interface Pending {
  readonly settle: (answer: unknown) => void;
  readonly fail: (error: Error) => void;
}

/** Starts a trainer thread. */
export function createTrainerLink(): TrainerLink {
  const worker = startThread('trainer-thread');
  const pending = new Map<number, Pending>();
  let calls = 0;
  let broken: TrainingError | undefined;
  const breakOff = (message: string, cause?: unknown) => {
    broken ??= new TrainingError('training/thread', message, { cause });
    for (const { fail } of pending.values()) fail(broken);
    pending.clear();
  };
  worker.on('message', (answer: Answer) => {
    const waiting = pending.get(answer.id);
    pending.delete(answer.id);
    if (answer.ok) waiting?.settle(answer.answer);
    else waiting?.fail(new TrainingError('training/failed', answer.message));
  });
  worker.on('error', (error) => breakOff(`the trainer thread failed: ${error.message}`, error));
  worker.on('exit', (code) => breakOff(`the trainer thread ended with code ${code}`));
  return {
    call: async <K extends CallName>(call: K, ask: Calls[K]['ask']) => {
      if (broken) throw broken;
      const id = calls++;
      const answer = await new Promise<unknown>((settle, fail) => {
        pending.set(id, { settle, fail });
        worker.postMessage({ id, call, ask });
      });
      return answer as Calls[K]['answer'];
    },
    close: async () => {
      await worker.terminate();
    },
  };
}
