/** The effect of error feedback on a linear model of 400 parameters with known true values. */
import { expect, it } from 'vitest';
import { playRounds, type Recipe } from '../support/rounds.ts';

const GOAL = 0.05;
/** Small steps per round: 235 rounds with everything sent. */
const slow = { innerSteps: 16, learningRate: 0.002 } as const;
/** Steps twice as large: 119 rounds. */
const quick = { ...slow, innerSteps: 32 } as const;

const whole = { ratio: 1, residual: 'feedback' } as const;
/** Four of the 400 values from each worker. */
const sparse = { ratio: 0.01 } as const;

const errorAfter = (recipe: Recipe, rounds: number) => playRounds(recipe, rounds, GOAL).at(-1)!;

it('N-17: top-k 1 % arrives with error feedback in 1.5 times the rounds of all values, without it not in three times', () => {
  const dense = playRounds({ ...slow, ...whole }, 1000, GOAL);
  expect(dense.at(-1)!.error).toBeLessThanOrEqual(GOAL);
  const rounds = dense.length;
  const fed = errorAfter({ ...slow, ...sparse, residual: 'feedback' }, Math.floor(1.5 * rounds));
  expect(fed.error).toBeLessThanOrEqual(GOAL);
  // most of the delta waits, as the residual share reports
  expect(fed.residualShare).toBeGreaterThan(0.9);
  expect(fed.residualShare).toBeLessThan(1);
  const dropped = errorAfter({ ...slow, ...sparse, residual: 'none' }, 3 * rounds);
  expect(dropped.error).toBeGreaterThan(5 * GOAL);
});

it('N-17: does not help in quick rounds, where the residual is learned again and counted twice', () => {
  const rounds = playRounds({ ...quick, ...whole }, 200, GOAL).length;
  const fed = errorAfter({ ...quick, ...sparse, residual: 'feedback' }, Math.floor(1.5 * rounds));
  expect(fed.error).toBeGreaterThan(GOAL);
});
