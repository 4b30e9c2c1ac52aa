/** Notices that a browser or a device suspended a worker of a tab, such as by a closed lid. */
import type { Clock } from '../base/async.ts';

/** Interval of the check, in milliseconds. */
const WATCH_MS = 5000;
/** A check that comes this much later, in milliseconds, is explained; shorter delays are a busy machine. */
const SUSPENDED_MS = 30_000;

/** Calls back with one sentence after each suspension. Rejects when the signal aborts. */
export async function watchSuspension(
  clock: Clock,
  signal: AbortSignal,
  onNotice: (message: string) => void,
): Promise<void> {
  for (let seenMs = clock.now(); ; ) {
    await clock.sleep(WATCH_MS, signal);
    const awayMs = clock.now() - seenMs - WATCH_MS;
    seenMs += awayMs + WATCH_MS;
    if (awayMs < SUSPENDED_MS) continue;
    onNotice(
      `the browser suspended this tab for ${Math.round(awayMs / 1000)} s (closed lid, sleep or ` +
        'power saving); nothing is lost: it follows the rounds that it missed',
    );
  }
}
