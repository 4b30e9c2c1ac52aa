/** The plan that a worker's settings make. */
import { combineSettings, type PartialSettings, presets, settingsFingerprint } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { planOf } from '../../src/worker/plan.ts';

const settingsOf = (asked: PartialSettings = {}) =>
  combineSettings(presets.linear, { run: 'run', relay: [], model: 'linear', ...asked });
const planWith = (asked: PartialSettings = {}, task = {}) => planOf(settingsOf(asked), task);

describe('the plan of settings', () => {
  it('has their values in the units of the worker, and what the task adds', () => {
    const asked = {
      ...{ rounds: 7, seed: 3, owners: 2, fragments: 2 },
      ...({ packing: 'int8', residual: 'none' } as const),
      ...{ innerSeconds: 9, leastSteps: 2, outerLearningRate: 0.3, momentum: 0.2 },
      ...{ roundTimeout: 11, joinTimeout: 12, heartbeatInterval: 13, maxMissedHeartbeats: 4 },
    };
    expect(planWith(asked, { tokensPerExample: 5 })).toMatchObject({
      ...{ run: 'run', rounds: 7, seed: 3, owners: 2, fragments: 2, residual: 'none' },
      localSteps: { innerSeconds: 9, leastSteps: 2 },
      outer: { learningRate: 0.3, momentum: 0.2 },
      ...{ roundTimeoutMs: 11_000, joinTimeoutMs: 12_000, heartbeatSeconds: 13 },
      ...{ maxMissedHeartbeats: 4, task: 'linear', tokensPerExample: 5 },
      fingerprint: settingsFingerprint(settingsOf(asked)),
    });
  });

  it('waits for the workers of a strict round, unless it says for how many', () => {
    const strict = { sync: { strategy: 'strict', workers: 3 } } as const;
    const waits = [
      {},
      { sync: { strategy: 'quorum' } },
      strict,
      { ...strict, waitFor: 2 },
    ] as const;
    expect(waits.map((asked) => planWith(asked).waitFor)).toEqual([1, 1, 3, 2]);
  });

  it('bounds the weight of a contribution by the examples of a full phase, or as it says', () => {
    const steps = { innerSteps: 6, batchSize: 7 };
    expect(planWith(steps).weightCap).toBe(42);
    expect(planWith({ ...steps, maxExamples: 50 }).weightCap).toBe(50);
  });
});
