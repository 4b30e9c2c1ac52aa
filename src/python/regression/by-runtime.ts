/** What the Python reference's library has once per runtime, and how it finds out which runtime is meant. */
import { ConfigError } from '../../base/errors.ts';
import { parseRuntime, runtimeOfState } from '../../formats/regression-state.ts';
import type { RegressionDataset, RegressionTask } from '../../model/data/regression.ts';
import type { Params } from '../../tensor/params.ts';
import {
  evaluateRegression,
  type RegressionOptions,
  type RegressionTraining,
  trainRegression,
} from './train.ts';

type OneRuntime = Omit<RegressionOptions, 'runtime'>;

/**
 * `trainRegression` for a linear model only. Throws a ConfigError for any other.
 *
 * @example
 * ```ts
 * import { initializeLinearRegressionState, parseRegressionDataset, trainLinearRegression } from 'nostrain/python';
 *
 * const dataset = parseRegressionDataset({ examples: [{ inputs: [1], target: 1 }] });
 * const options = { steps: 1, learningRate: 0.25, batchSize: 1 };
 * trainLinearRegression(initializeLinearRegressionState(1), dataset, options).params.values; // => Float64Array.of(0.5, 0.5)
 * ```
 */
export const trainLinearRegression = (
  params: Params,
  dataset: RegressionDataset,
  options: OneRuntime,
): RegressionTraining =>
  trainRegression(params, dataset, { ...options, runtime: 'linear-regression' });

/**
 * `trainRegression` for an mlp only. Throws a ConfigError for any other.
 *
 * @example
 * ```ts
 * import { initializeMlpRegressionState, parseRegressionDataset, trainMlpRegression } from 'nostrain/python';
 *
 * const examples = [{ inputs: [1], target: 1 }];
 * const dataset = parseRegressionDataset({ task: 'mlp-regression', examples });
 * const start = initializeMlpRegressionState({ features: 1, hiddenSize: 4 });
 * const { lossBefore, lossAfter } = trainMlpRegression(start, dataset, { steps: 50, learningRate: 0.1, batchSize: 1 });
 * lossAfter < lossBefore; // => true
 * ```
 */
export const trainMlpRegression = (
  params: Params,
  dataset: RegressionDataset,
  options: OneRuntime,
): RegressionTraining =>
  trainRegression(params, dataset, { ...options, runtime: 'mlp-regression' });

/**
 * `evaluateRegression` for a linear model only. Throws a ConfigError for any other.
 *
 * @example
 * ```ts
 * import { evaluateLinearRegression, initializeLinearRegressionState, parseRegressionDataset } from 'nostrain/python';
 *
 * const dataset = parseRegressionDataset({ examples: [{ inputs: [1], target: 3 }] });
 * evaluateLinearRegression(initializeLinearRegressionState(1), dataset); // => 9
 * ```
 */
export const evaluateLinearRegression = (params: Params, dataset: RegressionDataset): number =>
  evaluateRegression(params, dataset, 'linear-regression');

/**
 * `evaluateRegression` for an mlp only. Throws a ConfigError for any other.
 *
 * @example
 * ```ts
 * import { evaluateMlpRegression, initializeMlpRegressionState, parseRegressionDataset } from 'nostrain/python';
 *
 * const examples = [{ inputs: [0], target: 3 }];
 * const dataset = parseRegressionDataset({ task: 'mlp-regression', examples });
 * evaluateMlpRegression(initializeMlpRegressionState({ features: 1, hiddenSize: 4 }), dataset); // => 9
 * ```
 */
export const evaluateMlpRegression = (params: Params, dataset: RegressionDataset): number =>
  evaluateRegression(params, dataset, 'mlp-regression');

/**
 * Which runtime is meant: the one named, else the dataset's, else the state's, else `linear-regression`. Throws a ConfigError for
 * a name of no runtime, or when two of them disagree.
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
  const named = name === undefined ? undefined : parseRuntime(name);
  if (name !== undefined && named === undefined) {
    throw new ConfigError('state/runtime', `${JSON.stringify(name.slice(0, 80))} is no runtime`, {
      hint: 'the runtimes are linear-regression and mlp-regression',
    });
  }
  const asked = named ?? dataset?.task;
  if (dataset?.task !== undefined && dataset.task !== asked) {
    throw new ConfigError('state/runtime', `the dataset is for ${dataset.task}, not ${asked}`, {
      hint: 'use a dataset of the same runtime',
    });
  }
  return state === undefined ? (asked ?? 'linear-regression') : runtimeOfState(state, asked);
}
