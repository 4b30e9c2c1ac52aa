/** Builds contributions for tests, with defaults for the fields that a test does not set. */
import type { Contribution } from 'nostrain/run';
import { dense } from './vectors.ts';

export const contribution = (
  worker: string,
  delta: readonly number[],
  more: Partial<Contribution> = {},
): Contribution => ({
  worker,
  eventId: worker.padEnd(64, '0').slice(0, 64),
  round: 0,
  base: 'b'.repeat(64),
  delta: dense(delta),
  examples: undefined,
  steps: 1,
  createdAt: 0,
  payloadBytes: 10,
  eventBytes: 100,
  ...more,
});
