/** Two workers and a relay in one process, using the library only: `nostrain demo linear` on one page. */
import {
  completePlan,
  completeSettings,
  createRelaySet,
  createSigner,
  createWire,
  genesis,
  initialParameters,
  presets,
  runWorker,
  stateDigest,
  systemClock,
} from 'nostrain';
import { createSecretKey, createTrainer, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';

const relay = await createRelay();
const settings = completeSettings(presets.linear, {
  model: 'linear',
  run: 'demo',
  relay: [relay.url],
});
const plan = completePlan({
  run: settings.run,
  rounds: 4,
  innerSteps: 50,
  seed: 1,
  sync: { strategy: 'strict', workers: 2 },
  waitFor: 2,
});

/** Examples of y = 2x - 1; each worker has its own range of x. */
function examples(from: number): { inputs: Float32Array; targets: Float32Array } {
  const inputs = Float32Array.from({ length: 32 }, (_, i) => from + i / 32);
  return { inputs, targets: inputs.map((x) => 2 * x - 1) };
}

async function work(name: string, from: number): Promise<string> {
  const model = { architecture: 'linear', features: 1 } as const;
  const schedule = { learningRate: 0.1, warmupSteps: 0, totalSteps: 0, finalShare: 1 };
  const trainer = await createTrainer({
    model,
    optimizer: { optimizer: 'sgd', schedule, clipNorm: 0 },
    batch: 8,
    data: { kind: 'regression', features: 1, ...examples(from) },
    device: 'cpu',
    threads: 1,
  });
  const relays = createRelaySet(settings.relay, { openSocket, clock: systemClock });
  const { layout } = trainer;
  const signer = createSigner(createSecretKey());
  const limits = { maxContainerBytes: 10_000 };
  const wire = createWire({ run: plan.run, layout, relays, signer, clock: systemClock, ...limits });
  const start = genesis({ layout, values: initialParameters(model, plan.seed) }, 0);
  const final = await runWorker(start, {
    plan,
    ports: {
      clock: systemClock,
      trainer,
      wire,
      store: { load: async () => undefined, save: async () => undefined },
      report: (event) => {
        if (event.type === 'round')
          console.log(`${name}: round ${event.index + 1}, ${event.digest.slice(0, 8)}`);
      },
    },
    signal: new AbortController().signal,
  });
  await relays.close();
  await trainer.close();
  const [bias, weight] = final.params.values;
  console.log(`${name}: y = ${weight?.toFixed(3)}x + ${bias?.toFixed(3)}`);
  return stateDigest(final.params);
}

const [alice, bob] = await Promise.all([work('alice', -1), work('bob', 0.5)]);
await relay.close();
console.log(alice === bob ? 'both have the same bits' : 'the two differ');
process.exitCode = alice === bob ? 0 : 1;
