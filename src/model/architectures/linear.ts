/** Linear regression: one weighted sum and a bias, mean squared error. Tensors are named as in the Python reference. */
import type { LinearSpec } from '../../run/spec/model-spec.ts';
import { add, mul, reduceSum, square, sub } from '../graph/verbs.ts';
import type { Architecture, Model } from './architecture.ts';

export const linear: Architecture<LinearSpec> = ({ features }) => {
  const predict: Model['predict'] = (weights, inputs) =>
    add(reduceSum(mul(inputs, weights('linear.weight')), [1]), weights('linear.bias')); // (B)
  return {
    tensors: [
      { name: 'linear.weight', shape: [1, features], start: 'zeros' },
      { name: 'linear.bias', shape: [1], start: 'zeros' },
    ],
    predict,
    losses: (weights, { inputs, targets }) => square(sub(predict(weights, inputs), targets)),
  };
};
