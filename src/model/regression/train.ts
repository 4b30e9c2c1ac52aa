/**
 * Local training as the Python reference does it: f64, consecutive batches from the first example on, no shuffling, plain
 * gradient descent. It is for states that must equal the reference's; runs train on graphs instead.
 */
import { ConfigError, TrainingError } from '../../base/errors.ts';
import type { Params } from '../../tensor/params.ts';
import type { RegressionDataset, RegressionSet, RegressionTask } from '../data/regression.ts';
import type { Batch } from './batch.ts';
import { type RegressionModel, readModel, writeModel } from './layout.ts';
import { predictLinear, stepLinear } from './linear.ts';
import { predictMlp, stepMlp } from './mlp.ts';

export interface RegressionOptions {
  readonly steps: number;
  readonly learningRate: number;
  readonly batchSize: number;
  /** What the person asked for; must agree with the state and the dataset. */
  readonly runtime?: RegressionTask | undefined;
}

export interface RegressionTraining {
  readonly runtime: RegressionTask;
  readonly params: Params;
  /** Mean squared errors over all examples. */
  readonly lossBefore: number;
  readonly lossAfter: number;
}

/** Trains a copy of the state. Throws a ConfigError where state, dataset and options do not fit together. */
export function trainRegression(
  params: Params,
  dataset: RegressionDataset,
  { steps, learningRate, batchSize, runtime }: RegressionOptions,
): RegressionTraining {
  requirePositive('steps', steps, Number.isSafeInteger(steps));
  requirePositive('batch size', batchSize, Number.isSafeInteger(batchSize));
  requirePositive('learning rate', learningRate, Number.isFinite(learningRate));
  const model = fittingModel(params, dataset, runtime);
  const lossBefore = meanLoss(model, dataset);
  let at = 0;
  for (let step = 0; step < steps; step++) {
    const rows = Array.from({ length: batchSize }, (_, i) => (at + i) % dataset.size);
    takeStep(model, dataset, { rows, learningRate });
    at = (at + batchSize) % dataset.size;
  }
  const trained = writeModel(model);
  if (!trained.values.every(Number.isFinite)) {
    throw new TrainingError('training/not-finite', `training diverged within ${steps} steps`, {
      hint: 'lower the learning rate',
    });
  }
  return {
    runtime: model.runtime,
    params: trained,
    lossBefore,
    lossAfter: meanLoss(model, dataset),
  };
}

/** The mean squared error over all examples. */
export const evaluateRegression = (params: Params, dataset: RegressionDataset): number =>
  meanLoss(fittingModel(params, dataset, undefined), dataset);

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

/** The state as a model, once everything that says what it is agrees. */
function fittingModel(
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
