/** How long a member waits for manifests, learned from how long they took before. */
import type { RoundTiming } from './round-state.ts';

/** Lower median of whole numbers; 0 of none. */
function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[(sorted.length - 1) >> 1] ?? 0;
}

/** How long to wait: the median of past arrivals and `c` median deviations more, within the bounds of the run. */
export function graceOf(delays: readonly number[], timing: RoundTiming): number {
  const { graceMinMs, graceMaxMs, deadlineC } = timing;
  if (delays.length === 0) return graceMaxMs;
  const middle = median(delays);
  const deviation = median(delays.map((delay) => Math.abs(delay - middle)));
  return Math.min(graceMaxMs, Math.max(graceMinMs, Math.ceil(middle + deadlineC * deviation)));
}
