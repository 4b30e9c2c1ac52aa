/**
 * Trains regressions like the Python reference: f64, consecutive batches from the first example on, plain gradient
 * descent in its order of operations. Other models train on op graphs instead.
 */
import { ConfigError, TrainingError } from '../../base/errors.ts';
import {
  type LinearModel,
  type MlpModel,
  type RegressionModel,
  readModel,
  runtimeOfState,
  writeModel,
} from '../../formats/regression-state.ts';
import { oneOf } from '../../formats/stored-state.ts';
import type {
  RegressionDataset,
  RegressionSet,
  RegressionTask,
} from '../../model/data/regression.ts';
import type { Params } from '../../tensor/params.ts';

/** The batch of one gradient descent step. */
interface RegressionBatch {
  /** Row indices of the dataset, in order; a row may occur more than once. */
  readonly rows: readonly number[];
  readonly learningRate: number;
}

/** Returns the prediction for one row. */
function predictLinear(
  { weight, bias, features }: LinearModel,
  { inputs }: RegressionSet,
  row: number,
): number {
  let sum = 0;
  for (let i = 0; i < features; i++) sum += weight[i]! * inputs[row * features + i]!;
  return sum + bias[0]!;
}

/** Updates the model by one gradient descent step on the batch. */
function stepLinear(model: LinearModel, set: RegressionSet, batch: RegressionBatch): void {
  const { weight, bias, features } = model;
  const weightGradient = new Float64Array(features);
  const biasGradient = new Float64Array(1);
  for (const row of batch.rows) {
    const error = predictLinear(model, set, row) - set.targets[row]!;
    const factor = 2 * error * (1 / batch.rows.length);
    for (let i = 0; i < features; i++) {
      weightGradient[i]! += factor * set.inputs[row * features + i]!;
    }
    biasGradient[0]! += factor;
  }
  descend(weight, weightGradient, batch);
  descend(bias, biasGradient, batch);
}

/** Writes the hidden layer of one row into `hidden` (H) and returns the prediction. */
function forward(
  model: MlpModel,
  { inputs }: RegressionSet,
  row: number,
  hidden: Float64Array,
): number {
  const { features, hiddenWeight, hiddenBias, outputWeight, outputBias } = model;
  let output = 0;
  for (let j = 0; j < model.hidden; j++) {
    let sum = hiddenBias[j]!;
    for (let i = 0; i < features; i++) {
      sum += hiddenWeight[j * features + i]! * inputs[row * features + i]!;
    }
    hidden[j] = Math.tanh(sum);
    output += outputWeight[j]! * hidden[j]!;
  }
  return outputBias[0]! + output;
}

/** Updates the model by one gradient descent step on the batch. */
function stepMlp(model: MlpModel, set: RegressionSet, batch: RegressionBatch): void {
  const { features, outputWeight } = model;
  const hidden = new Float64Array(model.hidden);
  const gradient = {
    hiddenWeight: new Float64Array(model.hiddenWeight.length),
    hiddenBias: new Float64Array(model.hidden),
    outputWeight: new Float64Array(model.hidden),
    outputBias: new Float64Array(1),
  };
  for (const row of batch.rows) {
    const error = forward(model, set, row, hidden) - set.targets[row]!;
    const factor = 2 * error * (1 / batch.rows.length);
    gradient.outputBias[0]! += factor;
    for (let j = 0; j < model.hidden; j++) {
      const h = hidden[j]!;
      gradient.outputWeight[j]! += factor * h;
      const back = factor * outputWeight[j]! * (1 - h * h);
      gradient.hiddenBias[j]! += back;
      for (let i = 0; i < features; i++) {
        gradient.hiddenWeight[j * features + i]! += back * set.inputs[row * features + i]!;
      }
    }
  }
  for (const name of ['hiddenWeight', 'hiddenBias', 'outputWeight', 'outputBias'] as const) {
    descend(model[name], gradient[name], batch);
  }
}

function descend(
  values: Float64Array,
  gradient: Float64Array,
  { learningRate }: RegressionBatch,
): void {
  for (let i = 0; i < values.length; i++) values[i]! -= learningRate * gradient[i]!;
}

/** Options of `trainRegression`. */
export interface RegressionOptions {
  readonly steps: number;
  readonly learningRate: number;
  /** Number of examples per step. */
  readonly batchSize: number;
  /** The requested runtime; must agree with the state and the dataset. */
  readonly runtime?: RegressionTask | undefined;
}

/** The result of `trainRegression`. */
export interface RegressionTraining {
  readonly runtime: RegressionTask;
  readonly params: Params;
  /** Mean squared error over all examples before training. */
  readonly lossBefore: number;
  readonly lossAfter: number;
}

/**
 * Trains a copy of the state by gradient descent, f64, in the Python reference's order of operations: linear models
 * agree bit for bit, others up to the last bit of tanh. Throws a ConfigError if the arguments do not fit together, a
 * TrainingError if training diverges.
 *
 * @example
 * ```ts
 * import { initializeLinearRegressionState, parseRegressionDataset, trainRegression } from 'nostrain/python';
 *
 * const examples = [{ inputs: [1], target: 3 }, { inputs: [2], target: 5 }];
 * const dataset = parseRegressionDataset({ task: 'linear-regression', examples });
 * const options = { steps: 500, learningRate: 0.1, batchSize: 2 };
 * const { lossBefore, lossAfter, runtime } = trainRegression(initializeLinearRegressionState(1), dataset, options);
 * [runtime, lossBefore, lossAfter < 1e-6]; // => ['linear-regression', 17, true]
 * ```
 */
export function trainRegression(
  params: Params,
  dataset: RegressionDataset,
  options: RegressionOptions,
): RegressionTraining {
  const model = fittingModel(params, dataset, options);
  const lossBefore = meanLoss(model, dataset);
  for (let step = 0; step < options.steps; step++) {
    const rows = batchRows(step, options.batchSize, dataset.size);
    takeStep(model, dataset, { rows, learningRate: options.learningRate });
  }
  return trained(writeModel(model), lossBefore, { dataset, steps: options.steps });
}

/** Returns the rows of a step: consecutive and cyclic from the first row. A batch may be larger than the dataset. */
export function batchRows(step: number, batchSize: number, size: number): readonly number[] {
  const from = ((step % size) * (batchSize % size)) % size;
  return Array.from({ length: batchSize }, (_, i) => (from + i) % size);
}

/** Returns the result of a training backend. Throws a TrainingError if a parameter is not finite. */
export function trained(
  params: Params,
  lossBefore: number,
  { dataset, steps }: { readonly dataset: RegressionDataset; readonly steps: number },
): RegressionTraining {
  const lossAfter = evaluateRegression(params, dataset);
  if (!params.values.every(Number.isFinite)) {
    throw new TrainingError('training/not-finite', `training diverged within ${steps} steps`, {
      hint: 'lower the learning rate',
    });
  }
  return { runtime: readModel(params).runtime, params, lossBefore, lossAfter };
}

/**
 * Returns the mean squared error over all examples. Throws a ConfigError if state, dataset and runtime do not fit
 * together.
 *
 * @example
 * ```ts
 * import { evaluateRegression, initializeLinearRegressionState, parseRegressionDataset } from 'nostrain/python';
 *
 * const examples = [{ inputs: [1], target: 3 }, { inputs: [2], target: 5 }];
 * evaluateRegression(initializeLinearRegressionState(1), parseRegressionDataset({ examples })); // => 17
 * ```
 */
export const evaluateRegression = (
  params: Params,
  dataset: RegressionDataset,
  runtime?: RegressionTask,
): number => meanLoss(modelFor(params, dataset, runtime), dataset);

function takeStep(model: RegressionModel, set: RegressionSet, batch: RegressionBatch): void {
  if (model.runtime === 'linear-regression') stepLinear(model, set, batch);
  else stepMlp(model, set, batch);
}

function meanLoss(model: RegressionModel, set: RegressionSet): number {
  let sum = 0;
  const predict =
    model.runtime === 'linear-regression'
      ? (row: number) => predictLinear(model, set, row)
      : (row: number) => forward(model, set, row, new Float64Array(model.hidden));
  for (let row = 0; row < set.size; row++) {
    const error = predict(row) - set.targets[row]!;
    sum += error * error;
  }
  return sum / set.size;
}

/** Maximum batch size; a larger one is a typing mistake. */
const MAX_BATCH = 2 ** 24;

/** Returns a copy of the state as a model. Throws a ConfigError if state, dataset and options do not fit together. */
export function fittingModel(
  params: Params,
  dataset: RegressionDataset,
  { steps, learningRate, batchSize, runtime }: RegressionOptions,
): RegressionModel {
  requirePositive('steps', steps, Number.isSafeInteger(steps));
  requirePositive('batch size', batchSize, Number.isSafeInteger(batchSize));
  if (batchSize > MAX_BATCH) {
    throw new ConfigError('training/option', `batch size ${batchSize} is more than ${MAX_BATCH}`);
  }
  requirePositive('learning rate', learningRate, Number.isFinite(learningRate));
  return modelFor(params, dataset, runtime);
}

/** Returns the state as a model. Throws a ConfigError unless the requested runtime and the dataset agree with it. */
function modelFor(
  params: Params,
  dataset: RegressionDataset,
  requested: RegressionTask | undefined,
): RegressionModel {
  const model = readModel(params);
  const { runtime, features } = model;
  const mismatch = (what: string, other: string) =>
    new ConfigError('state/runtime', `the state is ${runtime}, ${what} ${other}`, {
      hint: 'use a state and a dataset of the same runtime',
    });
  if (requested !== undefined && requested !== runtime)
    throw mismatch('the requested runtime is', requested);
  if (dataset.task !== undefined && dataset.task !== runtime) {
    throw mismatch('the dataset is for', dataset.task);
  }
  if (dataset.features !== features) {
    throw new ConfigError(
      'state/features',
      `the state takes ${features} inputs, the dataset has ${dataset.features} per example`,
      { hint: `create a state with \`nostrain init-state --features ${dataset.features}\`` },
    );
  }
  return model;
}

function requirePositive(what: string, value: number, isRight: boolean): void {
  if (isRight && value > 0) return;
  throw new ConfigError('training/option', `${what} must be above 0, not ${value}`);
}

const trainAs =
  (runtime: RegressionTask) =>
  (
    params: Params,
    dataset: RegressionDataset,
    options: Omit<RegressionOptions, 'runtime'>,
  ): RegressionTraining =>
    trainRegression(params, dataset, { ...options, runtime });

/**
 * Trains a linear model with `trainRegression`. Throws a ConfigError for any other model.
 *
 * @example
 * ```ts
 * import { initializeLinearRegressionState, parseRegressionDataset, trainLinearRegression } from 'nostrain/python';
 *
 * const dataset = parseRegressionDataset({ examples: [{ inputs: [1], target: 1 }] });
 * const options = { steps: 1, learningRate: 0.25, batchSize: 1 };
 * const { params } = trainLinearRegression(initializeLinearRegressionState(1), dataset, options);
 * params.values; // => Float64Array.of(0.5, 0.5)
 * ```
 */
export const trainLinearRegression = trainAs('linear-regression');

/**
 * Trains an mlp with `trainRegression`. Throws a ConfigError for any other model.
 *
 * @example
 * ```ts
 * import { initializeMlpRegressionState, parseRegressionDataset, trainMlpRegression } from 'nostrain/python';
 *
 * const dataset = parseRegressionDataset({ examples: [{ inputs: [1], target: 1 }] });
 * const start = initializeMlpRegressionState({ features: 1, hiddenSize: 4 });
 * const { lossBefore, lossAfter } = trainMlpRegression(start, dataset, { steps: 50, learningRate: 0.1, batchSize: 1 });
 * lossAfter < lossBefore; // => true
 * ```
 */
export const trainMlpRegression = trainAs('mlp-regression');

const evaluateAs = (runtime: RegressionTask) => (params: Params, dataset: RegressionDataset) =>
  evaluateRegression(params, dataset, runtime);

/**
 * Evaluates a linear model with `evaluateRegression`. Throws a ConfigError for any other model.
 *
 * @example
 * ```ts
 * import { evaluateLinearRegression, initializeLinearRegressionState, parseRegressionDataset } from 'nostrain/python';
 *
 * const dataset = parseRegressionDataset({ examples: [{ inputs: [1], target: 3 }] });
 * evaluateLinearRegression(initializeLinearRegressionState(1), dataset); // => 9
 * ```
 */
export const evaluateLinearRegression = evaluateAs('linear-regression');

/**
 * Evaluates an mlp with `evaluateRegression`. Throws a ConfigError for any other model.
 *
 * @example
 * ```ts
 * import { evaluateMlpRegression, initializeMlpRegressionState, parseRegressionDataset } from 'nostrain/python';
 *
 * const dataset = parseRegressionDataset({ examples: [{ inputs: [0], target: 3 }] });
 * evaluateMlpRegression(initializeMlpRegressionState({ features: 1, hiddenSize: 4 }), dataset); // => 9
 * ```
 */
export const evaluateMlpRegression = evaluateAs('mlp-regression');

/**
 * Returns the named runtime, else that of the dataset, else that of the state, else `linear-regression`. Throws a
 * ConfigError for an unknown name, or if two of them disagree.
 *
 * @example
 * ```ts
 * import { initializeMlpRegressionState, resolveTrainingRuntime } from 'nostrain/python';
 *
 * const state = initializeMlpRegressionState({ features: 1, hiddenSize: 4 });
 * resolveTrainingRuntime(undefined, { state }); // => 'mlp-regression'
 * resolveTrainingRuntime(' Linear-Regression '); // => 'linear-regression'
 * ```
 */
export function resolveTrainingRuntime(
  name?: string,
  { dataset, state }: { readonly dataset?: RegressionDataset; readonly state?: Params } = {},
): RegressionTask {
  const runtimes = ['linear-regression', 'mlp-regression'] as const;
  const named = name?.trim().toLowerCase();
  const requested =
    named === undefined ? dataset?.task : oneOf(named, runtimes, 'state/runtime', 'a runtime');
  if (dataset?.task !== undefined && dataset.task !== requested) {
    throw new ConfigError('state/runtime', `the dataset is for ${dataset.task}, not ${requested}`, {
      hint: 'use a dataset of the same runtime',
    });
  }
  return state === undefined
    ? (requested ?? 'linear-regression')
    : runtimeOfState(state, requested);
}
