/** When a round stops collecting: four strategies as one pure decision. */
import type { CompletionReason, Sync } from '../run/sync.ts';

export interface Collected {
  /** Valid gradients, the own one included. */
  readonly accepted: number;
  /** Workers with a fresh heartbeat, the own one included. */
  readonly live: number;
  /** Every reachable relay has sent what it stored. */
  readonly caughtUp: boolean;
  readonly nowMs: number;
  readonly deadlineMs: number;
}

/** Why to stop now, or undefined to go on. Under `strict` a missed deadline is `timeout` with too few accepted. */
export function closeReason(sync: Sync, seen: Collected): CompletionReason | undefined {
  if (sync.strategy === 'strict' && seen.accepted >= sync.workers) return 'strict';
  if (sync.strategy === 'quorum' && seen.accepted >= majorityOf(seen.live)) return 'quorum';
  if (sync.strategy === 'async' && seen.caughtUp) return 'async';
  return seen.nowMs >= seen.deadlineMs ? 'timeout' : undefined;
}

/** More than half of the live workers. */
const majorityOf = (live: number): number => Math.floor(live / 2) + 1;

/** How many gradients close the round, where a number does. */
export function wanted(sync: Sync, live: number): number | undefined {
  if (sync.strategy === 'strict') return sync.workers;
  return sync.strategy === 'quorum' ? majorityOf(live) : undefined;
}
