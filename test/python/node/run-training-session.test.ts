/** What a training session of the library stores, returns and resumes from. */

import { ConfigError } from 'nostrain/base';
import { parseRegressionDataset } from 'nostrain/model';
import { initializeLinearRegressionState } from 'nostrain/python';
import { createRelay } from 'nostrain/relay';
import type { WorkerState } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import {
  runTrainingSession,
  type TrainingSessionOptions,
  type TrainingWorkerConfig,
} from '../../../src/python/node/run-training-session.ts';
import { createKeeper } from '../../support/keeper.ts';
import { secretOf } from '../../support/swarm.ts';

const keep = createKeeper();

const configOf = (index: number, relay: string, rounds: number): TrainingWorkerConfig => ({
  initialState: initializeLinearRegressionState(1),
  dataset: parseRegressionDataset({ examples: [{ inputs: [index + 1], target: 2 * index + 1 }] }),
  relays: [relay],
  run: 'kept',
  secretKey: secretOf(index),
  rounds,
  innerSteps: 3,
  sync: { strategy: 'strict', workers: 2 },
  roundTimeoutMs: 30_000,
  // a session that starts again hears of its peer with the next heartbeat
  heartbeatSeconds: 1,
  maxMissedHeartbeats: 60,
});

const both = (
  relay: string,
  rounds: number,
  optionsOf: (index: number) => TrainingSessionOptions = () => ({}),
) =>
  Promise.all(
    [0, 1].map((index) => runTrainingSession(configOf(index, relay, rounds), optionsOf(index))),
  );

describe('runTrainingSession', () => {
  it('continues from the state of an earlier session as if it were one session', {
    timeout: 300_000,
  }, async () => {
    const [whole] = await both(keep(await createRelay()).url, 4);
    const relay = keep(await createRelay()).url;
    const first = await both(relay, 2);
    const second = await both(relay, 2, (index) => ({ resume: first[index]!.workerState }));
    expect(second[0]!.state.values).toEqual(whole!.state.values);
    expect(second[0]!.momentum.values).toEqual(whole!.momentum.values);
    expect(second[0]!.rounds.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    expect(first[0]!.rounds.map(({ index }) => index)).toEqual([0, 1]);
  });

  it('saves its state before each gradient and after each round; a killed session resumes from it', {
    timeout: 300_000,
  }, async () => {
    const [whole] = await both(keep(await createRelay()).url, 3);
    const relay = keep(await createRelay()).url;
    const saved: WorkerState[] = [];
    const kill = new AbortController();
    const store = {
      load: async () => undefined,
      save: async (state: WorkerState) => {
        saved.push(state);
        if (state.round === 1 && state.sent !== undefined) kill.abort(new Error('killed'));
      },
    };
    const other = runTrainingSession(configOf(1, relay, 3));
    const killed = runTrainingSession(configOf(0, relay, 3), { store, signal: kill.signal });
    await expect(killed).rejects.toThrow('killed');
    expect(saved.map(({ round, sent }) => [round, sent !== undefined])).toEqual([
      [0, true],
      [1, false],
      [1, true],
    ]);
    const again = await runTrainingSession(configOf(0, relay, 2), { resume: saved.at(-1)! });
    expect(again.state.values).toEqual(whole!.state.values);
    expect((await other).state.values).toEqual(whole!.state.values);
  });

  it('hands over what each round made, in order', async () => {
    const kept: number[] = [];
    const relay = keep(await createRelay()).url;
    const [ended] = await both(relay, 3, (index) =>
      index === 0
        ? {
            keep: async ({ before, after, cohort }) => {
              kept.push(before.round);
              expect(after.round).toBe(before.round + 1);
              expect(cohort).toHaveLength(2);
            },
          }
        : {},
    );
    expect(kept).toEqual([0, 1, 2]);
    expect(ended!.history.records).toHaveLength(3);
  });

  it('refuses what cannot be before it connects', async () => {
    const config = { ...configOf(0, 'ws://127.0.0.1:9', 2), rounds: 0 };
    await expect(runTrainingSession(config)).rejects.toBeInstanceOf(ConfigError);
  });
});
