/**
 * Time of a training step of ResNet-18 on pictures of 32 x 32 pixels, imported from PyTorch, and of PyTorch on the CPU, in turns.
 *
 *   NOSTRAIN_TORCH=python npm run bench:resnet -- [--turns 3] [--steps 3] [--batch 16] [--threads 1] [--width 64]
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { deriveKey } from 'nostrain/base';
import { createTrainer } from 'nostrain/node';
import { importOnnx } from '../../src/model/imported/import-onnx.ts';
import { importedModel } from '../../src/model/imported/model.ts';
import { modelLayout } from '../../src/model/parameters.ts';

const { values: flags } = parseArgs({
  options: {
    turns: { type: 'string', default: '3' },
    steps: { type: 'string', default: '3' },
    batch: { type: 'string', default: '16' },
    threads: { type: 'string', default: '1' },
    width: { type: 'string', default: '64' },
  },
});
const [turns, steps, batch, threads] = [flags.turns, flags.steps, flags.batch, flags.threads].map(
  Number,
) as [number, number, number, number];
const script = fileURLToPath(new URL('torch/resnet.py', import.meta.url));
const torch = (...args: readonly string[]): string =>
  execFileSync(process.env.NOSTRAIN_TORCH ?? 'python3', [script, '--width', flags.width, ...args], {
    encoding: 'utf8',
  });

/** Wall and processor time of a step, in milliseconds. */
type Times = readonly (readonly [wall: number, processor: number])[];

const file = join(mkdtempSync(join(tmpdir(), 'resnet-')), 'resnet.onnx');
torch('--export', file);
const imported = importOnnx(new Uint8Array(readFileSync(file)), () => new Uint8Array());
const model = importedModel(imported.graph, 'onnx-images');
const layout = modelLayout(model);
const params = new Float32Array(layout.size);
for (const { name, offset } of layout.slots) params.set(imported.elementsOf(name), offset);
const count = 4 * batch;
const data = {
  pixels: Uint8Array.from({ length: count * 32 * 32 * 3 }, (_, i) => (i * 7919) % 256),
  labels: Int32Array.from({ length: count }, (_, i) => i % 10),
};
const schedule = { learningRate: 0.01, warmupSteps: 0, totalSteps: 0, finalShare: 1 };
const trainer = await createTrainer({
  model,
  optimizer: { optimizer: 'sgd', schedule, clipNorm: 0 },
  batch,
  data: { kind: 'images', shard: data, validation: data },
  device: 'cpu',
  threads,
});

async function ours(): Promise<Times> {
  const times: [number, number][] = [];
  for (let step = 0; step < steps; step++) {
    const task = {
      params,
      moments: [],
      round: 0,
      steps: 1,
      firstStep: step,
      batchKey: deriveKey('bench'),
    };
    const [start, spent] = [performance.now(), process.cpuUsage()];
    await trainer.train(task, () => undefined, new AbortController().signal);
    const { user, system } = process.cpuUsage(spent);
    times.push([performance.now() - start, (user + system) / 1000]);
  }
  return times;
}

const median = (list: readonly number[]): number =>
  [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]!;

console.log(`${layout.size} parameters, batch ${batch}, ${threads} threads, load ${loadavg()}`);
await ours();
const all: { readonly mine: Times; readonly theirs: Times }[] = [];
for (let turn = 0; turn < turns; turn++) {
  const mine = await ours();
  const theirs: Times = JSON.parse(
    torch('--steps', `${steps}`, '--batch', `${batch}`, '--threads', `${threads}`),
  );
  all.push({ mine, theirs });
  const [wall, processor] = [0, 1].map((which) => {
    const [a, b] = [mine, theirs].map((times) => median(times.map((each) => each[which]!)));
    return `${a!.toFixed(0)} / ${b!.toFixed(0)} ms = ${(a! / b!).toFixed(2)}`;
  });
  console.log(
    `turn ${turn + 1}: wall ${wall}, processor ${processor}, load ${loadavg()[0]!.toFixed(1)}`,
  );
}
const ratio = (which: 0 | 1) =>
  median(all.flatMap(({ mine }) => mine.map((each) => each[which]))) /
  median(all.flatMap(({ theirs }) => theirs.map((each) => each[which])));
console.log(`ours / PyTorch: wall ${ratio(0).toFixed(2)}, processor ${ratio(1).toFixed(2)}`);
await trainer.close();
