/**
 * Time-based local steps: the number of steps follows from a worker's speed, within cap and floor, and its contribution
 * weighs that many examples.
 */

import { systemClock } from 'nostrain/base';
import { initialParameters } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import type { EngineTrainer } from 'nostrain/node/parts';
import { genesis, runWorker, type TrainTask } from 'nostrain/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { remainingStepsIn } from '../../src/worker/train.ts';
import { fakePorts, plan } from '../support/fake-ports.ts';
import { adamwSpec, chainCorpus, smallGpt } from '../support/ort-models.ts';

const BATCH = 8;
let trainer: EngineTrainer;

beforeAll(async () => {
  const corpus = chainCorpus(4000, smallGpt.vocabulary);
  const data = { kind: 'tokens', shard: corpus.subarray(0, 3000), validation: corpus } as const;
  trainer = await createTrainer({
    ...{ model: smallGpt, optimizer: adamwSpec, batch: BATCH, data, device: 'cpu', threads: 1 },
  });
});
afterAll(() => trainer.close());

interface ReportedSteps {
  readonly steps: number;
  readonly examples: number | undefined;
}

/** The contributions of two rounds by a worker whose steps take this long. */
async function play(stepMs: number, leastSteps: number, innerSteps: number) {
  let nowMs = 1_800_000_000_000;
  const ports = fakePorts({ now: () => nowMs, sleep: systemClock.sleep });
  const said: ReportedSteps[] = [];
  const { seal } = ports.wire;
  const wire = {
    ...ports.wire,
    seal: (own: Parameters<typeof seal>[0]) => {
      said.push({ steps: own.steps, examples: own.examples });
      return seal(own);
    },
  };
  const train = (task: TrainTask, _: unknown, signal: AbortSignal) => {
    const startMs = nowMs;
    const hears = ({ step }: { readonly step: number }) => {
      nowMs = startMs + step * stepMs;
    };
    return trainer.train(task, hears, signal);
  };
  const { layout } = trainer;
  const start = genesis({ layout, values: initialParameters(smallGpt, 1) }, 9);
  const chosen = plan({
    ...{ rounds: 2, innerSteps, sync: { strategy: 'strict', workers: 1 } },
    localSteps: { innerSeconds: 2, leastSteps },
  });
  const { signal } = new AbortController();
  const timedPorts = { ...ports, wire, trainer: { ...trainer, train } };
  const ended = await runWorker(start, { plan: chosen, ports: timedPorts, signal });
  return { said, tokens: ended.tokens };
}

describe('a budget of seconds', () => {
  it.each([
    ['of a fast worker are many steps', 100, 1, 1000, 20],
    ['of one three times slower a third of them', 300, 1, 1000, 7],
    ['are at most the inner steps of the run', 100, 1, 12, 12],
    ['are at least the least steps, however long they take', 5000, 4, 1000, 4],
  ] as const)('%s', async (_, stepMs, least, most, steps) => {
    const { said, tokens } = await play(stepMs, least, most);
    expect(said).toEqual(Array(2).fill({ steps, examples: steps * BATCH }));
    expect(tokens).toBe(2 * steps * BATCH);
  });

  it('counts training from before a restart, and ends within half a step of the budget', () => {
    let nowMs = 0;
    const room = remainingStepsIn({ innerSeconds: 10, leastSteps: 2 }, { now: () => nowMs }, 4);
    expect(room(0)).toBe(2);
    expect(room(8)).toBe(12);
    nowMs = 5800;
    expect(room(8)).toBe(0);
    expect(room(40)).toBe(1);
    nowMs = 6000;
    expect(room(1)).toBe(1);
    expect(room(400)).toBe(0);
  });
});
