import { TrainingError } from 'nostrain/base';
import { parseRegressionDataset } from 'nostrain/model';
import { initializeLinearRegressionState as linearState } from 'nostrain/python';
import { stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { trainOnBackend } from '../../../src/python/node/train-on-backend.ts';
import { type JsonState, readVectors, toParams } from '../../support/vectors.ts';

interface Case {
  readonly name: string;
  readonly state: JsonState;
  readonly dataset: unknown;
  readonly steps: number;
  readonly learning_rate: number;
  readonly batch_size: number;
  readonly metrics: { readonly loss_before: number; readonly loss_after: number };
  readonly trained: { readonly state: JsonState; readonly digest: string };
}

const { train_local: cases } = readVectors<{ train_local: Case[] }>('runtime.json');

function train(backend: 'python' | 'numpy' | 'torch' | 'onnx', test: Case) {
  const { steps, learning_rate: learningRate, batch_size: batchSize } = test;
  const dataset = parseRegressionDataset(test.dataset);
  const options = { steps, learningRate, batchSize };
  return trainOnBackend(backend, toParams(test.state), dataset, options);
}

const within = (found: number, expected: number) =>
  expect(Math.abs(found - expected)).toBeLessThanOrEqual(1e-9 * Math.abs(expected));

describe('onnxruntime in double precision', () => {
  it.each(cases)('$name: the reference to 1e-9', async (test) => {
    const { params, lossBefore, lossAfter } = await train('onnx', test);
    const expected = toParams(test.trained.state);
    expect(params.layout).toEqual(expected.layout);
    params.values.forEach((value, i) => {
      within(value, expected.values[i]!);
    });
    within(lossBefore, test.metrics.loss_before);
    within(lossAfter, test.metrics.loss_after);
  });

  it('is what numpy and torch mean here; python is the loop of the reference', async () => {
    const test = cases.find(({ name }) => name === 'mlp-a-40')!;
    const digest = async (backend: Parameters<typeof train>[0]) =>
      stateDigest((await train(backend, test)).params);
    const onnx = await digest('onnx');
    expect([await digest('numpy'), await digest('torch')]).toEqual([onnx, onnx]);
    expect(await digest('python')).toBe(test.trained.digest);
  });

  it('continues where one call ends', { timeout: 120_000 }, async () => {
    const test = cases.find(({ name }) => name === 'linear-a-30')!;
    // a batch so large that a call holds one step
    const large = { ...test, batch_size: 2 ** 20, steps: 2, learning_rate: 0.1 };
    const [plain, graph] = [await train('python', large), await train('onnx', large)];
    graph.params.values.forEach((value, i) => {
      within(value, plain.params.values[i]!);
    });
  });

  it('says that training diverged', async () => {
    const dataset = parseRegressionDataset({ examples: [{ inputs: [1, 2], target: 3 }] });
    const options = { steps: 500, learningRate: 1e3, batchSize: 1 };
    const training = trainOnBackend('onnx', linearState(2), dataset, options);
    await expect(training).rejects.toThrow(TrainingError);
  });
});
