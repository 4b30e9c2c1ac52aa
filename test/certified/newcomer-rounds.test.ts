/**
 * A worker that joins in the middle of a round counts soon, although rounds end once all awaited contributions have
 * arrived.
 */
import { describe, expect, it } from 'vitest';
import { certifiedRounds, certifiedSpec, kill, rootsOf } from '../support/certified-swarm.ts';
import { createTimedSwarm } from '../support/timed-swarm.ts';

// in seconds
const TRAIN = 60;
/** Longer than the others train: they have to wait for it. */
const SLOW = 68;
const HOUR = 3600;

describe('a worker out of step with the others', () => {
  it.each([
    [1, TRAIN],
    [30, TRAIN],
    [59, TRAIN],
    [30, SLOW],
  ])(
    '%i seconds into a round, training for %i: counts from its third round on',
    async (into, seconds) => {
      const spec = certifiedSpec({
        ...{ founders: [0, 1, 2, 3], rounds: 14, document: { committee: { quorum: 'cft' } } },
        timing: { graceMinMs: 75_000, graceMaxMs: 90_000, viewMs: 10_000 },
      });
      const swarm = createTimedSwarm(spec, TRAIN);
      const others = [0, 1, 2].map((index) => swarm.start({ index }));
      const first = swarm.start({ index: 3 });
      await swarm.secondsUntil(() => certifiedRounds(first).length === 2, HOUR);
      await kill(first);
      // members no longer wait for it
      await swarm.secondsUntil(() => certifiedRounds(others[0]!).length === 8, HOUR);
      await swarm.clock.advance(1000 * into);
      const returned = swarm.start({ index: 3, disk: first.disk, trainMs: 1000 * seconds });
      await swarm.finish([...others, returned], HOUR);
      const counted = certifiedRounds(others[0]!)
        .filter(({ accepted }) => accepted.includes(returned.id))
        .map(({ index }) => index);
      expect(counted).toEqual([0, 1, ...[10, 11, 12, 13]]);
      expect(rootsOf(returned).at(-1)).toBe(rootsOf(others[0]!).at(-1));
    },
  );
});
