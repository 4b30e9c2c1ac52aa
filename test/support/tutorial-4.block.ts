import {
  deriveKey,
  initialParameters,
  type CustomModel,
  ops,
  type Value,
  type Weights,
} from 'nostrain';
import { createTrainer } from 'nostrain/node';

const predict = (weights: Weights, inputs: Value): Value => {
  const hidden = ops.tanh(ops.gemm(inputs, weights('in.weight'), { c: weights('in.bias') })); // (B, 8)
  return ops.reduceSum(ops.mul(hidden, weights('out.weight')), [1]); // (B)
};

const model: CustomModel = {
  architecture: 'own',
  data: { kind: 'rows', features: 2 },
  tensors: [
    { name: 'in.weight', shape: [2, 8], start: { deviation: 1 } },
    { name: 'in.bias', shape: [8], start: { deviation: 0.5 } },
    { name: 'out.weight', shape: [1, 8], start: { deviation: 0.5 } },
  ],
  predict,
  losses: (weights, { inputs, targets }) => ops.square(ops.sub(predict(weights, inputs), targets)),
};

const schedule = { learningRate: 0.05, warmupSteps: 10, totalSteps: 400, finalShare: 0.1 };
const trainer = await createTrainer({
  model,
  optimizer: {
    ...{ optimizer: 'adamw', schedule, clipNorm: 1 },
    ...{ beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0 },
  },
  batch: 4,
  data: {
    ...{ kind: 'regression', features: 2 },
    inputs: Float32Array.of(0, 0, 0, 1, 1, 0, 1, 1),
    targets: Float32Array.of(-1, 1, 1, -1),
  },
  device: 'cpu',
  threads: 1,
});
const { params, losses } = await trainer.train(
  {
    params: initialParameters(model, 1),
    moments: [],
    ...{ round: 0, steps: 400, firstStep: 0, batchKey: deriveKey('my batches', 1) },
  },
  () => undefined,
  new AbortController().signal,
);
console.log(`${params.length} parameters`);
console.log(losses.at(-1)! < 0.01 ? 'it has learned xor' : 'it has not learned xor');
await trainer.close();

export {};
