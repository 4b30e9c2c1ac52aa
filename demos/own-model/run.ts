/** Trains a custom model on custom data: two spirals to tell apart, divided among two workers in blocks. */
import {
  type CustomModel,
  completePlan,
  createRelaySet,
  createSigner,
  createWire,
  genesis,
  initialParameters,
  ops,
  runWorker,
  stateDigest,
  systemClock,
  type Value,
  type Weights,
} from 'nostrain';
import { createSecretKey, createTrainer, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';

const WIDTH = 24;
const BLOCKS = 2;

/** Each block adds to the hidden state h (B, WIDTH): h + relu(h A) B. */
const predict = (weights: Weights, inputs: Value) => {
  let h = ops.tanh(ops.gemm(inputs, weights('in.weight'), { c: weights('in.bias') }));
  for (let i = 0; i < BLOCKS; i++) {
    const inner = ops.relu(ops.gemm(h, weights(`block.${i}.a`)));
    h = ops.add(h, ops.gemm(inner, weights(`block.${i}.b`)));
  }
  return ops.reduceSum(ops.mul(h, weights('out.weight')), [1]); // (B)
};

const block = (i: number) =>
  (['a', 'b'] as const).map((name) => ({
    name: `block.${i}.${name}`,
    shape: [WIDTH, WIDTH],
    start: { deviation: 0.15 },
  }));

/** Maps points (B, 2) to a number whose sign is the spiral; loss log(1 + e^(-target * prediction)). */
const spirals: CustomModel = {
  architecture: 'own',
  data: { kind: 'rows', features: 2 },
  tensors: [
    { name: 'in.weight', shape: [2, WIDTH], start: { deviation: 1.5 } },
    { name: 'in.bias', shape: [WIDTH], start: 'zeros' },
    ...Array.from({ length: BLOCKS }, (_, i) => block(i)).flat(),
    { name: 'out.weight', shape: [1, WIDTH], start: { deviation: 0.2 } },
  ],
  predict,
  losses: (weights, { inputs, targets }) =>
    ops.log(ops.add(ops.exp(ops.neg(ops.mul(targets, predict(weights, inputs)))), 1)),
};

/** Returns every second block of eight points of both spirals. */
function points(first: 0 | 1): { inputs: Float32Array; targets: Float32Array } {
  const rows = Array.from({ length: 64 }, (_, i) => {
    const step = 8 * (2 * Math.floor(i / 8) + first) + (i % 8);
    const angle = (step / 128) * 2.5 * Math.PI + 0.5;
    return [1, -1].map((side) => ({
      x: (side * angle * Math.cos(angle)) / 8,
      y: (side * angle * Math.sin(angle)) / 8,
      side,
    }));
  }).flat();
  const inputs = Float32Array.from(rows.flatMap(({ x, y }) => [x, y]));
  return { inputs, targets: Float32Array.from(rows, ({ side }) => side) };
}

const relay = await createRelay();
const plan = completePlan({
  run: 'spirals',
  rounds: 10,
  innerSteps: 20,
  seed: 1,
  sync: { strategy: 'strict', workers: 2 },
  waitFor: 2,
});

async function work(name: string, first: 0 | 1): Promise<string> {
  const training = points(first);
  const others = points(first === 0 ? 1 : 0);
  const schedule = { learningRate: 0.01, warmupSteps: 20, totalSteps: 200, finalShare: 0.1 };
  const trainer = await createTrainer({
    model: spirals,
    optimizer: {
      optimizer: 'adamw',
      schedule,
      clipNorm: 1,
      beta1: 0.9,
      beta2: 0.99,
      epsilon: 1e-8,
      weightDecay: 0,
    },
    batch: 32,
    data: { kind: 'regression', features: 2, ...training, validation: others },
    device: 'cpu',
    threads: 1,
  });
  const { layout } = trainer;
  const relays = createRelaySet([relay.url], { openSocket, clock: systemClock });
  const signer = createSigner(createSecretKey());
  const limits = { maxContainerBytes: 100_000 };
  const wire = createWire({ run: plan.run, layout, relays, signer, clock: systemClock, ...limits });
  const start = genesis({ layout, values: initialParameters(spirals, plan.seed) }, 0);
  const final = await runWorker(start, {
    plan,
    ports: {
      clock: systemClock,
      trainer,
      wire,
      store: { load: async () => undefined, save: async () => undefined },
      report: (event) => {
        if (event.type !== 'round') return;
        const { index, digest, trainingLoss } = event;
        console.log(
          `${name}: round ${index + 1}, loss ${trainingLoss.toFixed(3)}, ${digest.slice(0, 8)}`,
        );
      },
    },
    signal: new AbortController().signal,
  });
  const loss = await trainer.evaluate(Float32Array.from(final.params.values), 'validation');
  console.log(`${name}: loss ${loss.toFixed(4)} on the points of the other worker`);
  await relays.close();
  await trainer.close();
  return stateDigest(final.params);
}

const [alice, bob] = await Promise.all([work('alice', 0), work('bob', 1)]);
await relay.close();
console.log(alice === bob ? 'both have the same bits' : 'the two differ');
process.exitCode = alice === bob ? 0 : 1;
