/**
 * What half precision changes, held against f32 on the CPU, where the products of half precision are rounded as on a GPU: training loss and
 * validation loss (always measured in f32) after so many steps, and how far parameters are apart, as a share of how far training moved them. Rows in
 * f32 with sums in another order, and with every first parameter moved by up to a thousandth, say what that share is worth. The time is of all threads of this
 * CPU, which has no half precision.
 *
 *   npm run bench:precision -- [--model char-gpt --model llama --model lora] [--steps 20 --steps 200] [--rate 0.001] [--warmup 20] [--threads 2]
 *     [--corpus tinyshakespeare.txt] [--way f16] [--json]
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { deriveKey, philox } from 'nostrain/base';
import { type AnyModel, initialParameters, loraModel, writePlay } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { type FrozenNumbers, physicalCores } from 'nostrain/node/parts';
import type { Arithmetic, LlamaSpec, OptimizerSpec } from 'nostrain/run';
import { charGpt } from '../support/ort-models.ts';

const llama: LlamaSpec = {
  ...{ architecture: 'llama', vocabulary: 128, width: 128, layers: 4, heads: 4, keyValueHeads: 2 },
  ...{ headSize: 32, ffn: 384, context: 128, normEpsilon: 1e-5, rope: { base: 10_000 } },
  ...{ tied: true, bias: { queryKeyValue: false, attentionOutput: false, feedforward: false } },
  ...{ queryKeyNorm: false, deviation: 0.02 },
};
const base = initialParameters({ ...llama, deviation: 0.1 }, 2);

const models = {
  'char-gpt': { ...charGpt, vocabulary: 128 },
  llama,
  lora: loraModel(llama, { rank: 8, alpha: 16, targets: 'all-linear' }),
} satisfies Record<string, AnyModel>;
type Name = keyof typeof models;

const { values: options } = parseArgs({
  options: {
    model: { type: 'string', multiple: true, default: Object.keys(models) },
    steps: { type: 'string', multiple: true, default: ['20', '200'] },
    rate: { type: 'string', default: '0.001' },
    warmup: { type: 'string', default: '20' },
    batch: { type: 'string', default: '16' },
    threads: { type: 'string', default: String(physicalCores()) },
    corpus: { type: 'string' },
    way: { type: 'string', multiple: true },
    json: { type: 'boolean', default: false },
  },
});

const batch = Number(options.batch);
const optimizer: OptimizerSpec = {
  optimizer: 'adamw',
  schedule: {
    ...{ learningRate: Number(options.rate), warmupSteps: Number(options.warmup) },
    ...{ totalSteps: 0, finalShare: 1 },
  },
  ...{ clipNorm: 1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1 },
};
const text = options.corpus ? readFileSync(options.corpus) : writePlay({ minimumBytes: 400_000 });
const tokens = Uint8Array.from(text, (byte) => Math.min(127, byte));
const cut = Math.floor(0.9 * tokens.length);

/** The frozen tensors of adapters, out of the vector of a base. */
async function frozenOf(model: AnyModel): Promise<Readonly<Record<string, FrozenNumbers>>> {
  const tensors = ('frozen' in model && model.frozen) || [];
  let at = 0;
  return Object.fromEntries(
    tensors.map(({ name, shape }) => {
      const size = shape.reduce((product, dim) => product * dim, 1);
      at += size;
      return [
        name,
        shape.length === 1 ? new Float32Array(size).fill(1) : base.slice(at - size, at),
      ];
    }),
  );
}

interface Reached {
  readonly steps: number;
  /** The mean of the last ten steps. */
  readonly training: number;
  readonly validation: number;
  readonly params: Float32Array;
}

interface Way {
  readonly way: string;
  readonly precision: Arithmetic;
  readonly accumulate: number;
  /** Moves each first parameter by up to a thousandth of it. */
  readonly noise?: number;
}

const shaken = (params: Float32Array, seed: number): Float32Array =>
  params.map((value, i) => value * (1 + (philox([seed, 0], i, 0, 0, 0)[0] / 2 ** 31 - 1) / 1000));

async function train(name: Name, { precision, accumulate, noise }: Way) {
  const model: AnyModel = models[name];
  const trainer = await createTrainer({
    ...{ model, optimizer, batch, precision, accumulate, device: 'cpu' },
    threads: Number(options.threads),
    data: { kind: 'tokens', shard: tokens.subarray(0, cut), validation: tokens.subarray(cut) },
    frozen: () => frozenOf(model),
  });
  const start = initialParameters(model, 1);
  const params = noise === undefined ? start : shaken(start, noise);
  let state = { params, moments: [] as readonly Float32Array[] };
  let [done, used] = [0, 0];
  const reached: Reached[] = [];
  for (const [round, steps] of options.steps.map(Number).entries()) {
    const task = { ...state, round, steps: steps - done, firstStep: done };
    const before = process.cpuUsage();
    const trained = await trainer.train(
      { ...task, batchKey: deriveKey('precision') },
      () => undefined,
      new AbortController().signal,
    );
    state = { params: trained.params, moments: [...trained.moments] };
    // what other programs do to a shared machine hardly shows in it
    const { user, system } = process.cpuUsage(before);
    used += user + system;
    done = steps;
    const last = Array.from(trained.losses).slice(-10);
    reached.push({
      ...{ steps, params: trained.params },
      training: last.reduce((sum, loss) => sum + loss, 0) / last.length,
      validation: await trainer.evaluate(trained.params, 'validation', { batches: 8 }),
    });
  }
  await trainer.close();
  return { start, reached, milliseconds: used / 1000 / done };
}

const apart = (a: Float32Array, b: Float32Array): number => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i]! - b[i]!) ** 2;
  return Math.sqrt(sum);
};

const ways: readonly Way[] = [
  { way: 'f32', precision: 'f32', accumulate: 1 },
  { way: 'f32, sums in another order', precision: 'f32', accumulate: 2 },
  { way: 'f32, first parameters shaken', precision: 'f32', accumulate: 1, noise: 1 },
  { way: 'f32, first parameters shaken otherwise', precision: 'f32', accumulate: 1, noise: 2 },
  { way: 'f16', precision: 'f16', accumulate: 1 },
  { way: 'bf16', precision: 'bf16', accumulate: 1 },
];

const rows: Readonly<Record<string, number | string>>[] = [];
for (const name of options.model as Name[]) {
  let exact: Awaited<ReturnType<typeof train>> | undefined;
  for (const each of ways) {
    const { way } = each;
    if (exact && options.way && !options.way.includes(way)) continue;
    const trained = await train(name, each);
    exact ??= trained;
    for (const [i, { steps, training, validation, params }] of trained.reached.entries()) {
      const moved = apart(exact.reached[i]!.params, exact.start);
      rows.push({
        ...{ model: name, way, steps, training, validation },
        apart: apart(params, exact.reached[i]!.params) / moved,
        cpuMillisecondsPerStep: trained.milliseconds,
      });
      if (!options.json) {
        const { apart: share } = rows.at(-1)!;
        console.log(
          `${name}, ${way}, ${steps} steps: training ${training.toFixed(4)}, validation ${validation.toFixed(4)},`,
          `parameters ${(100 * Number(share)).toFixed(3)} % of the way apart, ${trained.milliseconds.toFixed(0)} ms of CPU a step`,
        );
      }
    }
  }
}
if (options.json) console.log(JSON.stringify(rows, null, 2));
