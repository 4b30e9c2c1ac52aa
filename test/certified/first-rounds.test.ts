/**
 * The first rounds of a run whose workers start almost together: each counts a contribution, although arrival times are
 * not known yet.
 */
import { describe, expect, it } from 'vitest';
import { certifiedRounds, certifiedSpec } from '../support/certified-swarm.ts';
import { createTimedSwarm } from '../support/timed-swarm.ts';

const HOUR = 3600;
const ROUNDS = 5;
/** Start of each worker and duration of its inner steps, in seconds. */
const starts = [
  [0, 0, 0],
  [0, 3, 7],
  [0, 10, 20],
  [0, 0, 20],
  [0, 7],
  [0, 20],
];
const trainTimes = [
  [20, 21, 22],
  [20, 26, 20],
  [20, 20, 33],
];

describe('first rounds end void when workers start together (median deviation 0 after one arrival)', () => {
  const cases = starts.flatMap((start) => trainTimes.map((times) => [start, times] as const));
  it.each(cases)('started after %j seconds, training for %j', async (start, times) => {
    const spec = certifiedSpec({
      ...{ founders: start.map((_, index) => index), rounds: ROUNDS },
      timing: { graceMinMs: 5000, graceMaxMs: 600_000, viewMs: 10_000 },
    });
    const swarm = createTimedSwarm(spec, 20);
    const members = [];
    let now = 0;
    for (const [index, at] of start.entries()) {
      await swarm.clock.advance(1000 * (at - now));
      now = at;
      members.push(swarm.start({ index, trainMs: 1000 * times[index]! }));
    }
    const seconds = await swarm.finish(members, HOUR);
    const rounds = certifiedRounds(members[0]!);
    expect(rounds.map(({ certified }) => certified!.result)).toEqual(Array(ROUNDS).fill('final'));
    expect(Math.min(...rounds.map(({ accepted }) => accepted.length))).toBeGreaterThan(1);
    const slowest = Math.max(...times.slice(0, start.length));
    expect(seconds).toBeLessThan(ROUNDS * (slowest + 2) + 20);
  });
});
