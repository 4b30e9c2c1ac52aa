/** One batch of linear regression by hand, in the Python reference's order of operations: same bits on every engine. */

import type { LinearModel } from '../../formats/regression-state.ts';
import type { RegressionSet } from '../../model/data/regression.ts';

/** What one step of gradient descent is taken on. */
export interface Batch {
  /** Rows of the dataset, in order; a row may come up more than once. */
  readonly rows: readonly number[];
  readonly learningRate: number;
}

/** The prediction for one row. */
export function predictLinear(
  { weight, bias, features }: LinearModel,
  { inputs }: RegressionSet,
  row: number,
): number {
  let sum = 0;
  for (let i = 0; i < features; i++) sum += weight[i]! * inputs[row * features + i]!;
  return sum + bias[0]!;
}

/** Moves the model by one step of gradient descent on the batch. */
export function stepLinear(model: LinearModel, set: RegressionSet, batch: Batch): void {
  const { weight, bias, features } = model;
  const weightGradient = new Float64Array(features);
  let biasGradient = 0;
  for (const row of batch.rows) {
    const error = predictLinear(model, set, row) - set.targets[row]!;
    const factor = 2 * error * (1 / batch.rows.length);
    for (let i = 0; i < features; i++) {
      weightGradient[i]! += factor * set.inputs[row * features + i]!;
    }
    biasGradient += factor;
  }
  const { learningRate } = batch;
  for (let i = 0; i < features; i++) weight[i]! -= learningRate * weightGradient[i]!;
  bias[0]! -= learningRate * biasGradient;
}
