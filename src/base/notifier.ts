/** Wakes everybody who waits for something to change; carries no state, so who wakes looks again. */
import { onAbort } from './abort.ts';
import type { Clock } from './clock.ts';

export interface Notifier {
  /** Wakes everyone who waits now. */
  notify(): void;
  /** Resolves at the next `notify`; rejects with `signal.reason` when aborted first. */
  next(signal: AbortSignal): Promise<void>;
}

export function createNotifier(): Notifier {
  const waiting = new Set<() => void>();
  return {
    notify() {
      const woken = [...waiting];
      waiting.clear();
      for (const wake of woken) wake();
    },
    next: (signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) {
          reject(signal.reason);
          return;
        }
        const stop = () => {
          waiting.delete(wake);
          reject(signal.reason);
        };
        const wake = () => {
          signal.removeEventListener('abort', stop);
          resolve();
        };
        waiting.add(wake);
        signal.addEventListener('abort', stop, { once: true });
      }),
  };
}

/** Something that goes on until it is stopped. */
export interface Watch {
  stop(): Promise<void>;
}

/** Looks now and after every `notify`, until stopped; what comes while it rests after a look is looked at together. */
export function watchChanges(
  changed: Pick<Notifier, 'next'>,
  look: () => void,
  rest: (signal: AbortSignal) => Promise<void> | undefined = () => undefined,
): Watch {
  const stopping = new AbortController();
  async function keepLooking(): Promise<void> {
    while (!stopping.signal.aborted) {
      look();
      const { signal } = stopping;
      const next = changed.next(signal).catch(() => undefined);
      await rest(signal)?.catch(() => undefined);
      await next;
    }
  }
  const looking = keepLooking();
  return {
    async stop() {
      stopping.abort();
      await looking;
    },
  };
}

/** Reason of waits that nobody waits for any more. */
const OVER = new Error('over');

/** Waits for the next `notify`, but not past `untilMs` of the clock; rejects with `signal.reason` when aborted first. */
export async function notifiedOrDeadline(
  notifier: Notifier,
  clock: Clock,
  untilMs: number,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const done = new AbortController();
  const release = onAbort(signal, () => done.abort(signal.reason));
  const waits = [
    notifier.next(done.signal),
    clock.sleep(Math.max(0, untilMs - clock.now()), done.signal),
  ];
  try {
    await Promise.race(waits);
  } finally {
    done.abort(OVER);
    await Promise.allSettled(waits);
    release();
  }
}
