/**
 * Three ways to average low-rank adapters, with the same bytes and steps: both matrices, B alone with A as it was drawn, and B and A in
 * alternate rounds. A small Llama learns the built-in play first; then four workers with a quarter of another text each train adapters
 * beside it, with this program's trainers, payloads, mean and error feedback, without relays.
 *
 *   npm run bench:adapter-averaging -- --corpus tinyshakespeare.txt
 *     [--rate 0.002 --rate 0.005 --rate 0.01] [--rounds 12] [--steps 5] [--budget 9216] [--rank 8] [--targets all-linear] [--seed 1]
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { deriveKey } from '../../src/base/rng.ts';
import { weightedMean } from '../../src/consensus/aggregate/mean.ts';
import { nesterovStep } from '../../src/consensus/outer/nesterov.ts';
import { fixedLora, type LoraSpec, loraModel } from '../../src/model/adapters/lora.ts';
import { writePlay } from '../../src/model/data/playwright.ts';
import { tokenizers } from '../../src/model/data/tokenizer.ts';
import { initialParameters, modelLayout, turnsOf } from '../../src/model/parameters.ts';
import { createPacker } from '../../src/network/wire/packer.ts';
import { nativeSha256 } from '../../src/node/native-sha256.ts';
import { createTrainer } from '../../src/node/trainer/trainer.ts';
import {
  type AdamWSpec,
  adapterTrains,
  type LlamaSpec,
  precisions,
} from '../../src/run/spec/model-spec.ts';
import { assignChunks } from '../../src/worker/chunk-assignment.ts';
import { awake, deltaOf, putBack, takeSent } from '../../src/worker/residual.ts';

const { values: options } = parseArgs({
  options: {
    corpus: { type: 'string', default: 'tinyshakespeare.txt' },
    rate: { type: 'string', multiple: true, default: ['0.002', '0.005', '0.01'] },
    rounds: { type: 'string', default: '12' },
    steps: { type: 'string', default: '5' },
    budget: { type: 'string', default: '9216' },
    rank: { type: 'string', default: '8' },
    targets: { type: 'string', default: 'all-linear' },
    seed: { type: 'string', default: '1' },
    pretraining: { type: 'string', default: '400' },
  },
});
const [rounds, steps, budget, rank, seed] = [
  ...[options.rounds, options.steps, options.budget, options.rank, options.seed].map(Number),
] as [number, number, number, number, number];
const WORKERS = 4;
const BATCH = 8;

const tokenizer = tokenizers.chars;
const spec: LlamaSpec = {
  ...{ architecture: 'llama', vocabulary: tokenizer.vocabulary, width: 128, layers: 4, heads: 4 },
  ...{ keyValueHeads: 2, headSize: 32, ffn: 352, context: 64, normEpsilon: 1e-5 },
  ...{ rope: { base: 10_000 }, tied: true, queryKeyNorm: false, deviation: 0.05 },
  bias: { queryKeyValue: false, attentionOutput: false, feedforward: false },
};
const adamw = (learningRate: number, total: number): AdamWSpec => ({
  optimizer: 'adamw',
  schedule: { learningRate, warmupSteps: 5, totalSteps: total, finalShare: 0.1 },
  ...{ clipNorm: 1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0 },
});
const never = new AbortController().signal;
const tokensOf = (text: Uint8Array) => tokenizer.encode(text).tokens;

const learnt = () => tokensOf(writePlay({ minimumBytes: 400_000 }));

/** The small Llama after some hundred steps on the play. */
async function pretrain(): Promise<ReadonlyMap<string, Float32Array>> {
  const play = learnt();
  const total = Number(options.pretraining);
  const trainer = await createTrainer({
    ...{ model: spec, optimizer: adamw(3e-3, total), batch: 16, device: 'cpu', threads: 1 },
    data: { kind: 'tokens', shard: play, validation: play },
  });
  const task = { round: 0, firstStep: 0, steps: total, moments: [], batchKey: deriveKey('bench') };
  const { params, losses } = await trainer.train(
    { ...task, params: initialParameters(spec, seed) },
    () => undefined,
    never,
  );
  await trainer.close();
  console.log(`base: loss on the play ${losses.at(-1)!.toFixed(3)} after ${total} steps`);
  return new Map(
    modelLayout(spec).slots.map(({ name, offset, size }) => [
      name,
      params.slice(offset, offset + size),
    ]),
  );
}

interface Played {
  readonly losses: readonly number[];
  readonly codecs: ReadonlySet<string>;
  readonly bytes: number;
}

/** Validation loss after each round. */
async function play(
  train: LoraSpec['train'],
  rate: number,
  base: ReadonlyMap<string, Float32Array>,
  text: ReturnType<typeof tokensOf>,
): Promise<Played> {
  const adapter: LoraSpec = { rank, alpha: 2 * rank, targets: options.targets, train };
  const model = loraModel(spec, adapter);
  const layout = modelLayout(model);
  const turns = turnsOf(model);
  const cut = Math.floor(0.9 * text.length);
  const quarter = Math.floor(cut / WORKERS);
  const trainers = await Promise.all(
    Array.from({ length: WORKERS }, (_, i) =>
      createTrainer({
        ...{ model, optimizer: adamw(rate, rounds * steps), batch: BATCH, device: 'cpu' },
        threads: 1,
        frozen: async () => ({
          ...Object.fromEntries([...base].map(([name, values]) => [name, values.slice()])),
          ...fixedLora(spec, adapter, seed),
        }),
        data: {
          kind: 'tokens',
          shard: text.slice(i * quarter, (i + 1) * quarter),
          validation: text.slice(cut),
        },
      }),
    ),
  );
  const packing = { packing: 'auto', eventBudget: budget, ratio: 1, sha256: nativeSha256 } as const;
  const packer = createPacker({ run: 'bench', layout, ...packing });
  let params = initialParameters(model, seed);
  let velocity: Float32Array = new Float32Array(layout.size);
  const workers = trainers.map(() => ({
    moments: [] as readonly Float32Array[],
    residual: new Float64Array(layout.size) as Float64Array,
  }));
  const codecs = new Set<string>();
  const losses = [await trainers[0]!.evaluate(params, 'validation', { batches: 32 })];
  let bytes = 0;
  for (let round = 0; round < rounds; round++) {
    const division = { run: 'bench', round, base: '00'.repeat(32), roster: [], owners: 0 };
    const assignment = assignChunks({ ...division, fragments: 1, size: layout.size, turns });
    const { stretch } = assignment;
    const rows = [];
    for (const [i, own] of workers.entries()) {
      const task = { round, steps, firstStep: round * steps, batchKey: deriveKey('bench', i) };
      const trained = await trainers[i]!.train(
        { ...task, params, moments: own.moments },
        () => undefined,
        never,
      );
      const delta = deltaOf(params, trained.params, awake(own.residual, stretch), 'feedback');
      const packed = packer.pack(delta, { round, worker: `${i}`, assignment });
      const { residual } = takeSent(delta, packed.sent, 'feedback', assignment.moving);
      putBack(residual, own.residual, stretch);
      workers[i] = { moments: trained.moments, residual };
      codecs.add(packed.codec);
      bytes = Math.max(bytes, packed.payload.length);
      rows.push({ worker: `${i}`, id: '', late: false, delta: packed.sent, weight: 1, scale: 1 });
    }
    const mean = weightedMean(rows, { size: layout.size, normalize: 'workers' });
    const outer = { learningRate: 1, momentum: 0 };
    const stepped = nesterovStep(params, velocity, mean, outer, stretch);
    params = stepped.values as Float32Array<ArrayBuffer>;
    velocity = stepped.momentum as Float32Array;
    losses.push(await trainers[0]!.evaluate(params, 'validation', { batches: 32 }));
  }
  await Promise.all(trainers.map((trainer) => trainer.close()));
  return { losses, codecs, bytes };
}

/** What the base loses on its own text in fewer bits, before anything is trained beside it. */
async function tellPrecisions(
  base: ReadonlyMap<string, Float32Array>,
  text: ReturnType<typeof tokensOf>,
): Promise<void> {
  const adapter: LoraSpec = { rank, alpha: 2 * rank, targets: options.targets, train: 'both' };
  for (const precision of precisions) {
    const model = loraModel(spec, adapter, precision);
    const trainer = await createTrainer({
      ...{ model, optimizer: adamw(1e-3, 1), batch: BATCH, device: 'cpu', threads: 1 },
      frozen: async () =>
        Object.fromEntries([...base].map(([name, values]) => [name, values.slice()])),
      data: { kind: 'tokens', shard: text, validation: text.slice(Math.floor(0.9 * text.length)) },
    });
    const loss = await trainer.evaluate(initialParameters(model, seed), 'validation', {
      batches: 64,
    });
    console.log(`base in ${precision}: ${loss.toFixed(4)}`);
    await trainer.close();
  }
}

const base = await pretrain();
const text = tokensOf(readFileSync(options.corpus));
await tellPrecisions(base, learnt());
for (const rate of options.rate.map(Number)) {
  for (const train of adapterTrains) {
    const { losses, codecs, bytes } = await play(train, rate, base, text);
    const shown = losses.map((loss) => loss.toFixed(3)).join(' ');
    console.log(`${train.padEnd(9)} rate ${rate}: ${[...codecs].join(', ')}, ${bytes} B: ${shown}`);
  }
}
