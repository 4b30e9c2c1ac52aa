/** Models of feature rows: linear regression, and an MLP with ReLU. */
import { ConfigError } from '../../base/errors.ts';
import type { LinearSpec, MlpSpec } from '../../run/spec/model-spec.ts';
import { add, gemm, mul, reduceSum, square, sub, tanh } from '../graph/verbs.ts';
import type { Architecture, DataForm, Model, TensorSpec } from './architecture.ts';

const rowsOf = ({ features }: LinearSpec | MlpSpec): DataForm => ({ kind: 'rows', features });

export const linear: Architecture<LinearSpec> = { build: buildLinear, dataForm: rowsOf };

function buildLinear({ features }: LinearSpec): Model {
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
}

/**
 * Tanh layers and one output, mean squared error. With one hidden layer the tensors are named as in the Python
 * reference; weights are stored [out, in].
 */
export const mlp: Architecture<MlpSpec> = {
  build: buildMlp,
  dataForm: rowsOf,
  check({ hidden }) {
    if (hidden.length > 0) return;
    throw new ConfigError('model/size', 'model.hidden needs at least one layer', {
      hint: 'use the linear architecture for a model without hidden layers',
    });
  },
};

function buildMlp({ features, hidden }: MlpSpec): Model {
  const widths = [features, ...hidden];
  const names = hidden.map((_, i) => (hidden.length === 1 ? 'mlp.hidden' : `mlp.hidden.${i}`));
  const predict: Model['predict'] = (weights, inputs) => {
    let h = inputs; // (B, width)
    for (const name of names) {
      const c = weights(`${name}.bias`);
      h = tanh(gemm(h, weights(`${name}.weight`), { c, transB: true }));
    }
    // not a product with a one-column matrix, whose rounding depends on the number of threads
    return add(reduceSum(mul(h, weights('mlp.output.weight')), [1]), weights('mlp.output.bias'));
  };
  return {
    tensors: [
      ...names.flatMap((name, i) => layer(name, widths[i]!, widths[i + 1]!, { abreast: 1 })),
      ...layer('mlp.output', widths[widths.length - 1]!, 1),
    ],
    predict,
    losses: (weights, { inputs, targets }) => square(sub(predict(weights, inputs), targets)),
  };
}

/** Returns a weight and its bias. The weight has initial variance 1 / inputs, which keeps tanh out of saturation. */
const layer = (
  name: string,
  inputs: number,
  outputs: number,
  hidden: Pick<TensorSpec, 'abreast'> = {},
): readonly TensorSpec[] => [
  {
    name: `${name}.weight`,
    shape: [outputs, inputs],
    start: { deviation: Math.sqrt(1 / inputs) },
    ...hidden,
  },
  { name: `${name}.bias`, shape: [outputs], start: 'zeros' },
];
