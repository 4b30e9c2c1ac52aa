/** What error feedback is worth, on a linear model of 400 parameters whose true values are known. */
import { expect, it } from 'vitest';
import { playRounds, type Recipe } from '../support/rounds.ts';

const GOAL = 0.05;
/** Rounds that each go a small part of the way: 235 of them with everything sent. */
const slow = { innerSteps: 16, learningRate: 0.002 } as const;
/** Twice the way in each: 119. */
const quick = { ...slow, innerSteps: 32 } as const;

const whole = { packing: 'int8', ratio: 1, residual: 'feedback' } as const;
/** Four of the 400 values from each worker. */
const sparse = { packing: 'topk-sign', ratio: 0.01 } as const;

const errorAfter = (recipe: Recipe, rounds: number) => playRounds(recipe, rounds, GOAL).at(-1)!;

it('N-17: top-k 1 % arrives with error feedback in 1.5 times the rounds of all values, without it not in three times', () => {
  const dense = playRounds({ ...slow, ...whole }, 1000, GOAL);
  expect(dense.at(-1)!.error).toBeLessThanOrEqual(GOAL);
  const rounds = dense.length;
  const fed = errorAfter({ ...slow, ...sparse, residual: 'feedback' }, Math.floor(1.5 * rounds));
  expect(fed.error).toBeLessThanOrEqual(GOAL);
  // most of what is due waits: that is the price, and it is told
  expect(fed.residualShare).toBeGreaterThan(0.9);
  expect(fed.residualShare).toBeLessThan(1);
  const dropped = errorAfter({ ...slow, ...sparse, residual: 'none' }, 3 * rounds);
  expect(dropped.error).toBeGreaterThan(5 * GOAL);
});

it('N-17: not in quick rounds, where what waits is learned again and counted twice', () => {
  const rounds = playRounds({ ...quick, ...whole }, 200, GOAL).length;
  const fed = errorAfter({ ...quick, ...sparse, residual: 'feedback' }, Math.floor(1.5 * rounds));
  expect(fed.error).toBeGreaterThan(GOAL);
  // kept in the local model it is counted once, and arrives sooner
  const local = errorAfter({ ...quick, ...sparse, residual: 'local' }, Math.floor(1.5 * rounds));
  expect(local.error).toBeLessThan(fed.error);
});
