/**
 * Rounds of low-rank adapters, with this program's trainers, payloads, mean and residual, without relays. A small Llama learns the
 * built-in play first; then four workers with a quarter of another text each train adapters beside it, at each rate. Each argument is a set
 * of settings as JSON over `defaults` below, trained at the first rate:
 *
 *   npm run bench:adapter-averaging -- --corpus tinyshakespeare.txt
 *     [--rate 0.002 --rate 0.005 --rate 0.01] [--rounds 12] [--steps 5] [--rank 8] [--targets all-linear] [--seed 1]
 *     ['{"packing": "int8"}' '{"bits": 0.25}']
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { deriveKey, sha256, toHex, utf8 } from 'nostrain/base';
import { nesterovStep, weightedMean } from 'nostrain/consensus';
import {
  initialParameters,
  type LoraSpec,
  loraModel,
  modelLayout,
  type Tokens,
  tokenizers,
  writePlay,
} from 'nostrain/model';
import { createPacker, type Packer } from 'nostrain/network';
import { createTrainer, nativeSha256 } from 'nostrain/node';
import type { EngineTrainer } from 'nostrain/node/parts';
import {
  type AdamWSpec,
  type LlamaSpec,
  type PackingName,
  precisions,
  type ResidualRule,
} from 'nostrain/run';
import { type Params, stateDigest, type Vector } from 'nostrain/tensor';
import { assignChunks, deltaOf, takeSent } from 'nostrain/worker';
import type { ChunkAssignment } from '../../src/run/contribution.ts';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    corpus: { type: 'string', default: 'tinyshakespeare.txt' },
    rate: { type: 'string', multiple: true, default: ['0.002', '0.005', '0.01'] },
    rounds: { type: 'string', default: '12' },
    steps: { type: 'string', default: '5' },
    rank: { type: 'string', default: '8' },
    targets: { type: 'string', default: 'all-linear' },
    seed: { type: 'string', default: '1' },
    pretraining: { type: 'string', default: '400' },
  },
});
const [rounds, steps, rank, seed] = [
  ...[options.rounds, options.steps, options.rank, options.seed].map(Number),
] as [number, number, number, number];
const RUN = 'bench';
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

const defaults = {
  packing: 'trellis' as PackingName,
  owners: 0,
  fragments: 1,
  residual: 'none' as ResidualRule,
  outerLearningRate: 1,
  momentum: 0,
  /** Bytes of events; what a parameter gets of one of 65,536 where the adapters are SmolLM2's 460,800. */
  budget: 9216,
  /** Of a payload for each parameter of the adapters, instead of a budget; 0 keeps the budget. */
  bits: 0,
};
type Setup = typeof defaults;

interface Worker {
  readonly name: string;
  readonly trainer: EngineTrainer;
  readonly batchKey: ReturnType<typeof deriveKey>;
  moments: readonly Float32Array[];
  residual: Float64Array;
}

interface Played {
  readonly losses: readonly number[];
  readonly codecs: ReadonlySet<string>;
  readonly bytes: number;
  readonly size: number;
}

type Base = ReadonlyMap<string, Float32Array>;

const adapter: LoraSpec = { rank, alpha: 2 * rank, targets: options.targets };

/** Four workers with a quarter of the text each; who is beside the base trains, what is beside it. */
function openWorkers(rate: number, base: Base, text: Tokens): Promise<Worker[]> {
  const cut = Math.floor(0.9 * text.length);
  const quarter = Math.floor(cut / WORKERS);
  const frozen = async () =>
    Object.fromEntries([...base].map(([name, values]) => [name, values.slice()]));
  return Promise.all(
    Array.from({ length: WORKERS }, async (_, i): Promise<Worker> => {
      const shard = text.slice(i * quarter, (i + 1) * quarter);
      const data = { kind: 'tokens', shard, validation: text.slice(cut) } as const;
      const trainer = await createTrainer({
        ...{ model: loraModel(spec, adapter), optimizer: adamw(rate, rounds * steps) },
        ...{ batch: BATCH, device: 'cpu', threads: 1, frozen, data },
      });
      const residual = new Float64Array(trainer.layout.size);
      const name = toHex(sha256(utf8(`worker ${i}`)));
      return { name, trainer, batchKey: deriveKey('bench', i), moments: [], residual };
    }),
  );
}

/** Validation loss after each round. */
async function play(setup: Setup, rate: number, base: Base, text: Tokens): Promise<Played> {
  const model = loraModel(spec, adapter);
  const layout = modelLayout(model);
  const { size } = layout;
  const { packing, owners, fragments, bits, momentum } = setup;
  const eventBudget = bits > 0 ? eventsFor((bits * size) / 8) : setup.budget;
  const packer = createPacker({
    ...{ run: RUN, layout, packing, eventBudget, sha256: nativeSha256 },
  });
  const workers = await openWorkers(rate, base, text);
  const { trainer } = workers[0]!;
  let params: Params = { layout, values: initialParameters(model, seed) };
  let velocity: Vector = new Float32Array(size);
  const evaluate = () =>
    trainer.evaluate(Float32Array.from(params.values), 'validation', { batches: 32 });
  const codecs = new Set<string>();
  const losses = [await evaluate()];
  let bytes = 0;
  for (let round = 0; round < rounds; round++) {
    const assignment = assignChunks({
      ...{ run: RUN, round, base: stateDigest(params), roster: workers.map(({ name }) => name) },
      ...{ owners, fragments, size },
    });
    const rows = [];
    for (const worker of workers) {
      const { name } = worker;
      const packed = await trainAndPack(worker, { params, round, setup, packer, assignment });
      codecs.add(packed.codec);
      bytes = Math.max(bytes, packed.payload.length);
      rows.push({ worker: name, id: name, late: false, delta: packed.sent, weight: 1, scale: 1 });
    }
    const mean = weightedMean(rows, { size, normalize: 'workers' });
    const outer = { learningRate: setup.outerLearningRate, momentum };
    const stepped = nesterovStep(params.values, velocity, mean, outer);
    params = { layout, values: stepped.values };
    velocity = stepped.momentum;
    losses.push(await evaluate());
  }
  await Promise.all(workers.map((worker) => worker.trainer.close()));
  return { losses, codecs, bytes, size };
}

/** Bytes of one event whose payload has so many. */
const eventsFor = (payload: number): number => Math.ceil((payload * 4) / 3) + 2048;

interface Round {
  readonly params: Params;
  readonly round: number;
  readonly setup: Setup;
  readonly packer: Packer;
  readonly assignment: ChunkAssignment;
}

/** The inner steps of one worker, and what it sends of them. */
async function trainAndPack(
  worker: Worker,
  { params, round, setup, packer, assignment }: Round,
): Promise<ReturnType<Packer['pack']>> {
  const { residual: rule } = setup;
  const task = { round, steps, firstStep: round * steps, moments: worker.moments };
  const trained = await worker.trainer.train(
    {
      ...task,
      params: Float32Array.from(params.values),
      batchKey: worker.batchKey,
    },
    () => undefined,
    never,
  );
  const delta = deltaOf(params.values, trained.params, worker.residual, rule);
  const packed = packer.pack(delta, { round, worker: worker.name, assignment });
  const { residual } = takeSent(delta, packed.sent, rule);
  Object.assign(worker, { moments: trained.moments, residual });
  return packed;
}

/** What the base loses on its own text in fewer bits, before anything is trained beside it. */
async function tellPrecisions(
  base: ReadonlyMap<string, Float32Array>,
  text: ReturnType<typeof tokensOf>,
): Promise<void> {
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
if (positionals.length === 0) await tellPrecisions(base, learnt());
const compare = async (label: string, setup: Setup, rate: number) => {
  const { losses, codecs, bytes, size } = await play(setup, rate, base, text);
  const shown = losses.map((loss) => loss.toFixed(3)).join(' ');
  const bits = ((8 * bytes) / size).toFixed(3);
  console.log(`${label}: ${[...codecs].join(', ')}, ${bytes} B, ${bits} bits: ${shown}`);
};
const rates = options.rate.map(Number);
for (const label of positionals) {
  await compare(label, { ...defaults, ...JSON.parse(label) }, rates[0]!);
}
for (const rate of positionals.length > 0 ? [] : rates) {
  await compare(`rate ${rate}`, defaults, rate);
}
