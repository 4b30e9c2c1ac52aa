/** The spec of the run that a world plays: short times, all workers are founders. */
import type { RunSpec } from 'nostrain/run';
import { certifiedSpec } from '../support/certified-swarm.ts';
import type { World } from './world.ts';

/** Largest difference between the clocks of honest machines. */
export const SKEW_MS = 90_000;
export const GRACE_MAX_MS = 60_000;
const RECOVERY_MS = 120_000;

export function specOf({ workers, rounds, late, contributors }: World): RunSpec {
  return certifiedSpec({
    founders: Array.from({ length: workers }, (_, i) => i),
    rounds,
    training: { model: 'linear' },
    timing: {
      ...{ graceMinMs: 3000, graceMaxMs: GRACE_MAX_MS, viewMs: 5000 },
      ...{ recoveryMs: RECOVERY_MS, skewMs: SKEW_MS, deadlineC: 4 },
    },
    document: { late, contributors },
  });
}
