import { describe, expect, test } from 'vitest';
import { checkSchedules, playSchedule } from './model-check/check.ts';
import { RunWorld } from './model-check/run-world.ts';
import { checkRuns, runs } from './model-check/runs.ts';
import { inside, listsOf, outside, sharedBallot, splitOf } from './model-check/setups.ts';

/** A short run; `npm run check:rounds` plays more schedules. */
const SCHEDULES = 1_000;

test('inside the bound no schedule ends in two outcomes, and every round ends once the network heals', {
  timeout: 420_000,
}, () => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  const { played, breach } = checkSchedules(inside, seed, SCHEDULES);
  expect({ seed, breach }).toEqual({ seed, breach: undefined });
  expect(played).toBe(SCHEDULES);
});

// a proposer that puts one outcome before several committees, and a worker that had two such proposals of it already
test('a schedule that once left a worker behind', () => {
  const setup = inside.find(({ name }) => name === 'N=7 K=7 bft f=1 floor=6')!;
  expect(playSchedule(setup, 4343).what).toBeUndefined();
});

test('several rounds in a row, with ledger, draw, randomness, certificates and replay: one history, which a replay finds', {
  timeout: 360_000,
}, () => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  const { breach, recovered } = checkRuns(seed, 4 * runs.length);
  expect({ seed, breach }).toEqual({ seed, breach: undefined });
  expect(recovered).toBeGreaterThan(0);
});

test('the same with a floor of a third, as a spec may ask for: parts of a run go on alone', {
  timeout: 180_000,
}, () => {
  const lax = { ...runs[0]!, founders: 9, strangers: 0, floorPermille: 334, isLive: false };
  expect(new RunWorld({ ...lax, seats: 64 }, 7).play().problem).toMatch('two histories');
  expect(new RunWorld({ ...lax, seats: 4 }, 48).play().problem).toMatch('two histories');
  for (const seats of [4, 64]) {
    for (const seed of [7, 48]) {
      const { problem } = new RunWorld({ ...lax, seats, floorPermille: 501 }, seed).play();
      expect(problem).toBeUndefined();
    }
  }
});

describe('just outside the bound a schedule breaks it', () => {
  test.each(outside)('$name', { timeout: 180_000 }, (setup) => {
    expect(playSchedule(setup, 1, splitOf(setup)).what).toMatch(/^two outcomes/);
    const inBound = { ...setup, equivocators: setup.equivocators - 1 };
    expect(playSchedule(inBound, 1, splitOf(inBound)).what).toBeUndefined();
  });

  test('lists of view-change votes of less than half of seven', () => {
    expect(playSchedule(listsOf(3), 1, sharedBallot).what).toMatch(/^two outcomes/);
    // lists that share one key of seven: a quorum is more than half of the seven too
    expect(playSchedule(listsOf(4), 1, sharedBallot).what).toBeUndefined();
    expect(playSchedule(listsOf(5), 1, sharedBallot).what).toBeUndefined();
  });
});
