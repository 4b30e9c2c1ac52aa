import { ConfigError, TrainingError } from 'nostrain/base';
import { parseRegressionDataset } from 'nostrain/model';
import {
  initializeLinearRegressionState as linearState,
  initializeMlpRegressionState as mlpState,
} from 'nostrain/python';
import { createLayout, stateDigest } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { evaluateRegression, trainRegression } from '../../../src/python/regression/train.ts';
import { type JsonState, readVectors, toParams } from '../../support/vectors.ts';

interface Case {
  readonly name: string;
  readonly state: JsonState;
  readonly dataset: unknown;
  readonly steps: number;
  readonly learning_rate: number;
  readonly batch_size: number;
  readonly metrics: {
    readonly runtime: string;
    readonly loss_before: number;
    readonly loss_after: number;
  };
  readonly trained: { readonly state: JsonState; readonly digest: string };
}

interface DatasetCase {
  readonly json: unknown;
  readonly ok: boolean;
}

const vectors = readVectors<{ train_local: Case[]; dataset_errors: DatasetCase[] }>('runtime.json');
const cases = (runtime: string) =>
  vectors.train_local.filter(({ metrics }) => metrics.runtime === runtime);

function train(test: Case) {
  const { steps, learning_rate: learningRate, batch_size: batchSize } = test;
  const dataset = parseRegressionDataset(test.dataset);
  return trainRegression(toParams(test.state), dataset, { steps, learningRate, batchSize });
}

const within = (found: number, expected: number, share: number) =>
  expect(Math.abs(found - expected)).toBeLessThanOrEqual(share * Math.abs(expected));

describe('trainRegression', () => {
  it.each(cases('linear-regression'))('$name: the bits of the reference', (test) => {
    const { params, lossBefore, lossAfter, runtime } = train(test);
    expect(runtime).toBe('linear-regression');
    expect(stateDigest(params)).toBe(test.trained.digest);
    expect([lossBefore, lossAfter]).toEqual([test.metrics.loss_before, test.metrics.loss_after]);
  });

  it.each(cases('mlp-regression'))('$name: the reference to 1e-12', (test) => {
    const { params, lossBefore, lossAfter } = train(test);
    const expected = toParams(test.trained.state);
    expect(params.layout).toEqual(expected.layout);
    params.values.forEach((value, i) => {
      within(value, expected.values[i]!, 1e-12);
    });
    within(lossBefore, test.metrics.loss_before, 1e-12);
    within(lossAfter, test.metrics.loss_after, 1e-12);
  });

  it('leaves the state it was given alone, and evaluates it the same', () => {
    const test = cases('linear-regression')[1]!;
    const before = toParams(test.state);
    const dataset = parseRegressionDataset(test.dataset);
    const options = { steps: 3, learningRate: 0.1, batchSize: 2 };
    const { params, lossBefore, lossAfter } = trainRegression(before, dataset, options);
    expect(before).toEqual(toParams(test.state));
    expect(evaluateRegression(before, dataset)).toBe(lossBefore);
    expect(evaluateRegression(params, dataset)).toBe(lossAfter);
  });

  it('reads states without dimensions of one, and writes them with', () => {
    const { state, dataset } = cases('linear-regression')[1]!;
    const [bias, weight] = [state.parameters['linear.bias']!, state.parameters['linear.weight']!];
    const flat = toParams({
      parameters: {
        'linear.bias': { ...bias, shape: [] },
        'linear.weight': { ...weight, shape: [2] },
      },
    });
    const options = { steps: 30, learningRate: 0.05, batchSize: 2 };
    const { params } = trainRegression(flat, parseRegressionDataset(dataset), options);
    expect(stateDigest(params)).toBe(cases('linear-regression')[1]!.trained.digest);
  });
});

describe('what does not fit together', () => {
  const rows = { examples: [{ inputs: [1, 2], target: 3 }] };
  const dataset = parseRegressionDataset(rows);
  const options = { steps: 1, learningRate: 0.1, batchSize: 1 };
  const mlp = mlpState({ features: 2, hiddenSize: 3, seed: 1, weightScale: 0.1 });
  const linear = linearState(2);
  const odd = {
    layout: createLayout([{ name: 'encoder.bias', shape: [3] }]),
    values: new Float64Array(3),
  };
  const badShape = {
    layout: createLayout([
      { name: 'linear.bias', shape: [2] },
      { name: 'linear.weight', shape: [1, 2] },
    ]),
    values: new Float64Array(4),
  };

  it('names both runtimes', () => {
    const forLinear = parseRegressionDataset({ task: 'linear-regression', ...rows });
    expect(() => trainRegression(mlp, forLinear, options)).toThrow(
      'the state is mlp-regression, the dataset is for linear-regression',
    );
    const asked = { ...options, runtime: 'mlp-regression' } as const;
    expect(() => trainRegression(linear, dataset, asked)).toThrow(
      'the state is linear-regression, the requested runtime is mlp-regression',
    );
    expect(trainRegression(mlp, dataset, asked).runtime).toBe('mlp-regression');
  });

  it.each([
    [linearState(3), options, 'takes 3 inputs, the dataset has 2'],
    [odd, options, 'a state with encoder.bias is neither'],
    [badShape, options, 'tensor linear.bias is [2], not [1] or []'],
    [linear, { ...options, steps: 0 }, 'steps must be above 0, not 0'],
    [linear, { ...options, batchSize: 1.5 }, 'batch size must be above 0, not 1.5'],
    [linear, { ...options, learningRate: Number.NaN }, 'learning rate must be above 0, not NaN'],
  ])('refuses case %#', (params, given, message) => {
    expect(() => trainRegression(params, dataset, given)).toThrow(ConfigError);
    expect(() => trainRegression(params, dataset, given)).toThrow(message);
  });

  it('says that training diverged', () => {
    const wild = { steps: 500, learningRate: 1e3, batchSize: 1 };
    expect(() => trainRegression(linear, dataset, wild)).toThrow(TrainingError);
  });

  it.each(vectors.dataset_errors)('dataset $json: $ok', ({ json, ok }) => {
    const parse = () => parseRegressionDataset(json);
    if (ok) expect(parse().size).toBe(1);
    else expect(parse).toThrow(ConfigError);
  });
});
