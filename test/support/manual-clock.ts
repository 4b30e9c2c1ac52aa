/** A clock that stands still until a test moves it: every sleeper wakes in order of its due time. */
import type { Clock } from 'nostrain/base';

export interface ManualClock extends Clock {
  /** Moves time forward, waking sleepers one due time after the other, and lets what they started settle. */
  advance(ms: number): Promise<void>;
  /** Lets what is under way settle, then wakes the sleeper that is due next; false if none is due by `untilMs`. */
  wakeNext(untilMs: number): Promise<boolean>;
  /** Every wait asked for so far, in order. */
  readonly sleeps: readonly number[];
  /** Number of sleepers that wait now. */
  readonly pending: number;
}

interface Sleeper {
  readonly dueMs: number;
  wake(): void;
}

/** Promise chains settle, and events of sockets that are ready are handled. */
const settled = async (): Promise<void> => {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** Starts at a fixed instant, so that what is signed with it is the same in every run. */
export function createManualClock(startMs = 1_700_000_000_000, settle = settled): ManualClock {
  let nowMs = startMs;
  const sleeps: number[] = [];
  const sleepers = new Set<Sleeper>();
  const sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      sleeps.push(ms);
      const stop = () => {
        sleepers.delete(sleeper);
        reject(signal?.reason);
      };
      const sleeper: Sleeper = {
        dueMs: nowMs + ms,
        wake: () => {
          sleepers.delete(sleeper);
          signal?.removeEventListener('abort', stop);
          resolve();
        },
      };
      sleepers.add(sleeper);
      signal?.addEventListener('abort', stop, { once: true });
    });
  /** Wakes the sleeper that is due first, unless that is later than `untilMs`; false if there was none. */
  const wakeFirst = (untilMs: number): boolean => {
    let next: Sleeper | undefined;
    for (const sleeper of sleepers) {
      if (sleeper.dueMs <= untilMs && (!next || sleeper.dueMs < next.dueMs)) next = sleeper;
    }
    if (!next) return false;
    nowMs = Math.max(nowMs, next.dueMs);
    next.wake();
    return true;
  };
  const advance = async (ms: number): Promise<void> => {
    const targetMs = nowMs + ms;
    await settle();
    while (wakeFirst(targetMs)) await settle();
    nowMs = targetMs;
  };
  return {
    now: () => nowMs,
    sleep,
    advance,
    async wakeNext(untilMs) {
      await settle();
      return wakeFirst(untilMs);
    },
    sleeps,
    get pending() {
      return sleepers.size;
    },
  };
}
