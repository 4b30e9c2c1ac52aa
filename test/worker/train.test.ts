/** Which steps an inner phase takes, and which round a worker trains in at all. */

import { genesis } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import { remainingStepsIn, stepsOf, trainOrResume } from '../../src/worker/train.ts';
import { everything, fakePorts, layout, ME, plan } from '../support/fake-ports.ts';
import { createManualClock } from '../support/manual-clock.ts';

describe('the steps of an inner phase', () => {
  it('continue the schedule of the rounds before, on batches of one worker', () => {
    const of = (round: number, worker = ME) =>
      stepsOf({ round, worker }, { innerSteps: 5, seed: 1 });
    expect([of(0), of(3)].map(({ firstStep, steps }) => [firstStep, steps])).toEqual([[0, 5], [15, 5]]); // biome-ignore format: one line
    expect(of(0).batchKey).toEqual(of(3).batchKey);
    expect(of(0).batchKey).not.toEqual(of(0, 'b'.repeat(64)).batchKey);
  });

  it('are those that fit the remaining time, at least some, and time before a restart counts', () => {
    let nowMs = 0;
    const clock = { now: () => nowMs };
    const remaining = remainingStepsIn({ innerSeconds: 10, leastSteps: 3 }, clock);
    const resumed = remainingStepsIn({ innerSeconds: 10, leastSteps: 3 }, clock, 6);
    expect([remaining(0), remaining(3)]).toEqual([3, Infinity]);
    nowMs = 2000;
    expect([remaining(2), remaining(4), resumed(4)]).toEqual([1, 16, 1]);
    // the clock was set back
    nowMs = -1000;
    expect(remaining(3)).toBe(Infinity);
    nowMs = 10_000;
    expect([remaining(2), remaining(20), resumed(20)]).toEqual([1, 0, 0]);
  });
});

it('a decided round is trained only to finish a phase that an earlier session began', async () => {
  const clock = createManualClock();
  const ports = fakePorts(clock);
  const session = { plan: plan(), ports, signal: new AbortController().signal };
  const state = genesis({ layout, values: new Float32Array(2) }, 1);
  const start = { base: ME, roster: [], assignment: everything, onlyRest: true };
  const keeper = (isLeft: boolean) =>
    ({ isLeft: async () => isLeft, keepingOf: async () => undefined }) as never;
  expect(await trainOrResume(state, start, session, keeper(false))).toBeUndefined();
  expect(await trainOrResume(state, undefined, session, keeper(true))).toBeUndefined();
  expect(ports.saved).toEqual([]);
  const training = trainOrResume(state, start, session, keeper(true));
  await clock.advance(1);
  const sealed = await training;
  expect(sealed?.sent).toBeDefined();
  expect(ports.saved).toEqual([sealed]);
});
