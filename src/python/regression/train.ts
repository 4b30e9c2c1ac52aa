/**
 * Local training as the Python reference does it: f64, consecutive batches from the first example on, no shuffling, plain
 * gradient descent. It is for states that must equal the Python reference's; runs train on graphs instead.
 */
import { ConfigError, TrainingError } from '../../base/errors.ts';
import { type RegressionModel, readModel, writeModel } from '../../formats/regression-state.ts';
import type {
  RegressionDataset,
  RegressionSet,
  RegressionTask,
} from '../../model/data/regression.ts';
import type { Params } from '../../tensor/params.ts';
import type { Batch } from './linear.ts';
import { predictLinear, stepLinear } from './linear.ts';
import { predictMlp, stepMlp } from './mlp.ts';

/** What `trainRegression` takes: steps, batch size, learning rate. */
export interface RegressionOptions {
  readonly steps: number;
  readonly learningRate: number;
  /** Examples per step. */
  readonly batchSize: number;
  /** What the person asked for; must agree with the state and the dataset. */
  readonly runtime?: RegressionTask | undefined;
}

/** What `trainRegression` gives. */
export interface RegressionTraining {
  readonly runtime: RegressionTask;
  readonly params: Params;
  /** Mean squared errors over all examples. */
  readonly lossBefore: number;
  readonly lossAfter: number;
}

/**
 * Trains a copy of the state by plain gradient descent, f64, in the Python reference's order of operations: linear models come out
 * to the bit, others to the last bit of tanh. Throws a ConfigError where state, dataset and options do not fit together, a
 * TrainingError where it diverges.
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

/** The rows of a step: consecutive, round and round from the first on. A batch may be larger than the dataset. */
export function batchRows(step: number, batchSize: number, size: number): readonly number[] {
  const from = ((step % size) * (batchSize % size)) % size;
  return Array.from({ length: batchSize }, (_, i) => (from + i) % size);
}

/** Result of any training backend; throws a TrainingError if a parameter is not finite. */
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
 * The mean squared error over all examples. Throws a ConfigError where state, dataset and the runtime asked for do not fit
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

function takeStep(model: RegressionModel, set: RegressionSet, batch: Batch): void {
  if (model.runtime === 'linear-regression') stepLinear(model, set, batch);
  else stepMlp(model, set, batch);
}

function meanLoss(model: RegressionModel, set: RegressionSet): number {
  let sum = 0;
  for (let row = 0; row < set.size; row++) {
    const predicted =
      model.runtime === 'linear-regression'
        ? predictLinear(model, set, row)
        : predictMlp(model, set, row);
    const error = predicted - set.targets[row]!;
    sum += error * error;
  }
  return sum / set.size;
}

/** More rows than this in one step are a slip of the hand. */
const MAX_BATCH = 2 ** 24;

/** A copy of the state as a model. Throws a ConfigError where state, dataset and options do not fit together. */
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

/** The state as a model, once everything that says what it is agrees. */
function modelFor(
  params: Params,
  dataset: RegressionDataset,
  asked: RegressionTask | undefined,
): RegressionModel {
  const model = readModel(params);
  const { runtime, features } = model;
  const mismatch = (what: string, other: string) =>
    new ConfigError('state/runtime', `the state is ${runtime}, ${what} ${other}`, {
      hint: 'use a state and a dataset of the same runtime',
    });
  if (asked !== undefined && asked !== runtime) throw mismatch('the runtime asked for is', asked);
  if (dataset.task !== undefined && dataset.task !== runtime) {
    throw mismatch('the dataset is for', dataset.task);
  }
  if (dataset.features !== features) {
    throw new ConfigError(
      'state/features',
      `the state takes ${features} inputs, the dataset has ${dataset.features} per example`,
      { hint: `\`nostrain init-state --features ${dataset.features}\` makes a state that fits` },
    );
  }
  return model;
}

function requirePositive(what: string, value: number, isRight: boolean): void {
  if (isRight && value > 0) return;
  throw new ConfigError('training/option', `${what} must be above 0, not ${value}`);
}
