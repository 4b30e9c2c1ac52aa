/**
 * How far two machines lie apart that run the same inner steps: the distance of what they learned, by the length of the step, for other numbers of
 * threads, other orders of adding, WebAssembly, and parameters that begin one rounding apart; and what a check takes.
 *
 *   npm run bench:rerun -- [--steps 30] [--width 128]
 */
import { parseArgs } from 'node:util';
import { initialParameters } from 'nostrain/model';
import { createTrainer, nativeSha256, type TrainerSetup } from 'nostrain/node';
import type { OptimizerSpec } from 'nostrain/run';
import { env, InferenceSession, Tensor } from 'onnxruntime-web/wasm';
import { encodePrivate, rootOf } from '../../src/certified/features/disclosure.ts';
import type { ThreadRequest } from '../../src/trainer/messages.ts';
import type { Runtime } from '../../src/trainer/runtime.ts';
import { serveTrainer } from '../../src/trainer/serve.ts';
import { openOn } from '../../src/trainer/setup.ts';
import { createTrainerOn } from '../../src/trainer/trainer.ts';
import { innerPhase } from '../../src/worker/train.ts';
import { chainCorpus, charGpt } from '../support/ort-models.ts';

const { values } = parseArgs({ options: { steps: { type: 'string', default: '30' } } });
const steps = Number(values.steps);
const optimizer: OptimizerSpec = {
  ...{ optimizer: 'adamw', clipNorm: 1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1 },
  schedule: { learningRate: 1e-3, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
};
const text = chainCorpus(100_000, 95);
const first = initialParameters(charGpt, 1);

const openStored = () => {
  throw new Error('no files here');
};

/** The build for browsers, in this thread: as a tab that shares no memory trains, or with the batch cut as native threads cut it. */
function createWasmTrainer(setup: TrainerSetup, isCut: boolean) {
  const ort: Runtime = {
    Tensor,
    writesInPlace: false,
    createSession: (model) => {
      env.wasm.numThreads = 1;
      return InferenceSession.create(model, {
        ...{ executionProviders: ['wasm'], executionMode: 'sequential', logSeverityLevel: 3 },
        ...{ graphOptimizationLevel: 'disabled', enableMemPattern: false },
      });
    },
  };
  const hints = { cpu: '', cuda: '', webgpu: '' };
  const start: Parameters<typeof openOn>[2]['start'] = ({ onAnswer }) => {
    const serve = serveTrainer({ ort, openStored }, (answer) => onAnswer(answer));
    return { post: (ask: ThreadRequest) => serve(ask), terminate: async () => undefined };
  };
  return createTrainerOn(
    {
      ...{ threads: 1, openStored },
      open: (_, opening) =>
        openOn('cpu', isCut ? opening : { ...opening, parts: 1 }, { start, hints }),
    },
    setup,
  );
}

/** What comes of one inner phase. */
async function train({ threads = 1, accumulate = 1, shift = 0, wasm = '' }) {
  const setup: TrainerSetup = {
    ...{ model: charGpt, optimizer, batch: 32, accumulate, device: 'cpu', threads },
    data: { kind: 'tokens', shard: text, validation: text },
  };
  const trainer =
    wasm === '' ? await createTrainer(setup) : await createWasmTrainer(setup, wasm === 'cut');
  const residual = new Float64Array(first.length);
  const start = { residual, worker: 'a'.repeat(64), moments: [] };
  const rules = { innerSteps: steps, seed: 1, residual: 'feedback' } as const;
  const params = first.map((value) => value * (1 + shift));
  const { signal } = new AbortController();
  const began = performance.now();
  const end = await innerPhase({ ...start, round: 0, params }, rules, trainer, () => {}, signal);
  const seconds = (performance.now() - began) / 1000;
  await trainer.close();
  const after = { delta: end.delta, moments: end.trained.moments };
  const hashing = performance.now();
  const { root, bytes } = rootOf(encodePrivate(after), nativeSha256);
  return { ...after, root, bytes, seconds, hashMs: performance.now() - hashing };
}

const apart = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let [difference, length] = [0, 0];
  for (let i = 0; i < a.length; i++) {
    difference += (a[i]! - b[i]!) ** 2;
    length += a[i]! ** 2;
  }
  return 1e6 * Math.sqrt(difference / length);
};

const usual = await train({});
console.log(
  `${first.length} parameters, ${steps} steps of 32 rows: ${usual.seconds.toFixed(1)} s; private state ${(usual.bytes / 1e6).toFixed(1)} MB, its root ${usual.hashMs.toFixed(0)} ms`,
);
for (const [name, change] of [
  ['again', {}],
  ['2 threads', { threads: 2 }],
  ['4 threads', { threads: 4 }],
  ['accumulate 2', { accumulate: 2 }],
  ['accumulate 4', { accumulate: 4 }],
  ['one rounding apart', { shift: 2 ** -23 }],
  ['WebAssembly, cut like native threads', { wasm: 'cut' }],
  ['WebAssembly in one tab', { wasm: 'whole' }],
] as const) {
  const other = await train(change);
  const [m, v] = usual.moments.map((part, i) => apart(part, other.moments[i]!));
  const isSame = other.root === usual.root ? 'the same bits' : 'other bits';
  console.log(
    `${name}: ${isSame}; learned ${apart(usual.delta, other.delta).toFixed(1)} ppm apart, moments ${m!.toFixed(1)} and ${v!.toFixed(1)} ppm`,
  );
}
