/**
 * A clock for workers and relays that talk over real sockets in one process: time stands still until every socket is quiet, then jumps to
 * the next moment that somebody waits for. A round of a minute takes as long as its computing, and no time depends on the machine.
 */
import type { Clock } from 'nostrain/base';

export interface JumpClock extends Clock {
  /** Moves time on by so much, moment by moment. */
  advance(ms: number): Promise<void>;
}

export interface Traffic {
  /** Changes whenever anything is sent or arrives. */
  readonly count: () => number;
  /** Connections that are neither open nor refused yet. */
  readonly opening: () => number;
}

interface Sleeper {
  readonly dueMs: number;
  wake(): void;
}

/** Turns of the event loop without traffic after which nothing is on its way. */
const QUIET_TURNS = 6;
const START_MS = 1_700_000_000_000;

export function createJumpClock(traffic: Traffic): JumpClock {
  let nowMs = START_MS;
  const sleepers = new Set<Sleeper>();
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  async function settle(): Promise<void> {
    let before = traffic.count();
    for (let quiet = 0; quiet < QUIET_TURNS; ) {
      await turn();
      const now = traffic.count();
      quiet = now === before && traffic.opening() === 0 ? quiet + 1 : 0;
      before = now;
    }
  }
  function sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const stop = () => {
        sleepers.delete(sleeper);
        reject(signal?.reason);
      };
      const sleeper: Sleeper = {
        dueMs: nowMs + Math.max(0, ms),
        wake: () => {
          sleepers.delete(sleeper);
          signal?.removeEventListener('abort', stop);
          resolve();
        },
      };
      sleepers.add(sleeper);
      signal?.addEventListener('abort', stop, { once: true });
    });
  }
  return {
    now: () => nowMs,
    sleep,
    async advance(ms) {
      const targetMs = nowMs + ms;
      await settle();
      for (;;) {
        let dueMs = Number.POSITIVE_INFINITY;
        for (const sleeper of sleepers) dueMs = Math.min(dueMs, sleeper.dueMs);
        if (dueMs > targetMs) break;
        nowMs = Math.max(nowMs, dueMs);
        for (const sleeper of [...sleepers]) if (sleeper.dueMs <= nowMs) sleeper.wake();
        await settle();
      }
      nowMs = targetMs;
    },
  };
}
