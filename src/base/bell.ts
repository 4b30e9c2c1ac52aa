/** A bell: those who wait are woken when somebody rings; no state travels through it. */
import type { Clock } from './clock.ts';

export interface Bell {
  /** Wakes everyone who waits now. */
  ring(): void;
  /** Resolves at the next ring; rejects with `signal.reason` when aborted first. */
  next(signal: AbortSignal): Promise<void>;
}

export function createBell(): Bell {
  const waiting = new Set<() => void>();
  return {
    ring() {
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

/** Waits for the next ring, but not past `untilMs` of the clock; rejects with `signal.reason` when aborted first. */
export async function ringOrDeadline(
  bell: Bell,
  clock: Clock,
  untilMs: number,
  signal: AbortSignal,
): Promise<void> {
  const done = new AbortController();
  const either = AbortSignal.any([signal, done.signal]);
  const waits = [bell.next(either), clock.sleep(Math.max(0, untilMs - clock.now()), either)];
  try {
    await Promise.race(waits);
  } finally {
    done.abort();
    await Promise.allSettled(waits);
  }
}
