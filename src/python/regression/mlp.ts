/**
 * One batch of a tanh layer and one output by hand, in the Python reference's order of operations. Engines may differ in
 * the last bit of tanh, and from there on.
 */

import type { MlpModel } from '../../formats/regression-state.ts';
import type { RegressionSet } from '../../model/data/regression.ts';
import type { Batch } from './linear.ts';

/** The hidden layer for one row (H), written into `hidden`, and the prediction. */
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

/** The prediction for one row. */
export const predictMlp = (model: MlpModel, set: RegressionSet, row: number): number =>
  forward(model, set, row, new Float64Array(model.hidden));

/** Moves the model by one step of gradient descent on the batch. */
export function stepMlp(model: MlpModel, set: RegressionSet, batch: Batch): void {
  const { features, hiddenWeight, hiddenBias, outputWeight, outputBias } = model;
  const hidden = new Float64Array(model.hidden);
  const gradient = {
    hiddenWeight: new Float64Array(hiddenWeight.length),
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
  const { learningRate } = batch;
  descend(hiddenWeight, gradient.hiddenWeight, learningRate);
  descend(hiddenBias, gradient.hiddenBias, learningRate);
  descend(outputWeight, gradient.outputWeight, learningRate);
  descend(outputBias, gradient.outputBias, learningRate);
}

function descend(values: Float64Array, gradient: Float64Array, learningRate: number): void {
  for (let i = 0; i < values.length; i++) values[i]! -= learningRate * gradient[i]!;
}
