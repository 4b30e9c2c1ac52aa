/**
 * A clock for tests over real sockets within one process: time stands still while anything happens, and jumps to the next
 * sleeper once the event loop has had nothing to do for a number of turns. A test takes no real time for its waits, and a
 * busy machine changes nothing.
 */
import type { Clock } from 'nostrain/base';
import { createManualClock } from './manual-clock.ts';

/** Turns of the event loop without a new sleeper, after which all sockets of this process are quiet. */
const IDLE_TURNS = 150;

/** Starts at the machine's time, because relays and signatures date by it. */
export function createIdleClock(): Clock {
  const manual = createManualClock(Date.now());
  const dues: number[] = [];
  let isWatching = false;
  let changes = 0;
  const watch = async (): Promise<void> => {
    for (let last = changes, idle = 0; manual.pending > 0; ) {
      await new Promise((resolve) => setImmediate(resolve));
      idle = changes === last ? idle + 1 : 0;
      last = changes;
      if (idle < IDLE_TURNS) continue;
      idle = 0;
      const next = Math.min(...dues.filter((due) => due > manual.now()));
      dues.splice(0, dues.length, ...dues.filter((due) => due > next));
      await manual.advance(Math.max(0, next - manual.now()));
    }
    isWatching = false;
  };
  return {
    now: manual.now,
    sleep(ms, signal) {
      changes++;
      dues.push(manual.now() + Math.max(1, ms));
      const slept = manual.sleep(Math.max(1, ms), signal);
      if (!isWatching && manual.pending > 0) {
        isWatching = true;
        void watch();
      }
      return slept;
    },
  };
}
