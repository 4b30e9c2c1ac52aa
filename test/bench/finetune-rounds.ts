/**
 * What fine-tuning together ends at, without relays: SmolLM2-135M-Instruct with adapters on a text that is dealt to several
 * workers, with the worker's batches, assignment, packing, residual, mean and outer step. How a run ended is kept in
 * `docs/assets/finetune.ndjson`; a run that was stopped goes on with its last finished round, one that is finished is not repeated.
 * Each argument is a set of settings as JSON, whose defaults are in `defaults` below:
 *
 *   npm run bench:finetune-rounds -- --corpus FILE '{}' '{"workers": 1, "own": "2/4"}' '{"packing": "none"}'
 *
 * `"packing": "none"` averages dense f32 deltas; `"workers": 1, "own": "2/4"` is one worker alone on the second quarter.
 * `--export DIR` writes what test/bench/torch/finetune_rounds.py needs to play the first setting in PyTorch with PEFT.
 */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { deriveKey, sha256, toHex, utf8 } from 'nostrain/base';
import { nesterovStep } from 'nostrain/consensus';
import { type ShardForm, shardText, splitText, type Tokens } from 'nostrain/model';
import { createPacker, type Packer } from 'nostrain/network';
import { nativeSha256 } from 'nostrain/node';
import type { AdamWSpec, Contribution, PackingName, ResidualRule } from 'nostrain/run';
import { CHUNK_LENGTH, chunkCount, type PartialVector, stateDigest } from 'nostrain/tensor';
import { assignChunks, deltaOf, takeSent } from 'nostrain/worker';
import { learningRateAt } from '../../src/model/optimizers/optimizer.ts';
import { meanDelta } from '../support/mean.ts';
import { needSmolLM2 } from '../support/smollm2.ts';
import { type LocalTrainer, openLocal, rowsOf } from './finetune/local-trainer.ts';
import { type LocalWorker, type Progress, restore, save } from './finetune/progress.ts';

const RUN = 'bench';
const RESULTS = 'docs/assets/finetune.ndjson';
const STATES = '.bench/finetune';

const defaults = {
  workers: 4,
  /** The part of the text of a worker alone. */
  own: '1/1',
  form: 'interleaved' as ShardForm,
  /** Of the training part of the text, from its beginning: friends may have little. */
  share: 1,
  rounds: 8,
  innerSteps: 5,
  batch: 2,
  context: 256,
  rank: 8,
  alpha: 16,
  targets: 'qv',
  learningRate: 2e-3,
  warmupSteps: 5,
  finalShare: 0.1,
  seed: 1,
  packing: 'trellis' as PackingName | 'none',
  eventBudget: 65_536,
  owners: 4,
  fragments: 1,
  residual: 'none' as ResidualRule,
  outerLearningRate: 1,
  momentum: 0,
  /** Whether Adam's moments live through a round. */
  moments: 'keep' as 'keep' | 'reset',
};
type Setup = typeof defaults;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    corpus: { type: 'string' },
    threads: { type: 'string', default: '1' },
    export: { type: 'string' },
  },
});
if (!values.corpus) throw new Error('give a text with --corpus FILE');
const text = readFileSync(values.corpus, 'utf8');
for (const label of positionals) {
  const setup = { ...defaults, ...JSON.parse(label) };
  const done = existsSync(RESULTS) ? readFileSync(RESULTS, 'utf8').split('\n') : [];
  const known = done.find((line) => line !== '' && JSON.parse(line).label === label);
  if (known && values.export === undefined) console.log(known);
  else await simulate(label, setup);
}

function optimizerOf(setup: Setup): AdamWSpec {
  const { learningRate, warmupSteps, finalShare, rounds, innerSteps } = setup;
  const schedule = { learningRate, warmupSteps, totalSteps: rounds * innerSteps, finalShare };
  const numbers = { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, clipNorm: 1 };
  return { optimizer: 'adamw', schedule, ...numbers };
}

function openWorkers(setup: Setup, training: Tokens, size: number): readonly LocalWorker[] {
  const { workers, own, form, context } = setup;
  const [index = 1, count = 1] = own.split('/').map(Number);
  return Array.from({ length: workers }, (_, i): LocalWorker => {
    const part = workers === 1 ? { index, count } : { index: i + 1, count: workers };
    return {
      name: toHex(sha256(utf8(`worker ${workers === 1 ? index - 1 : i}`))),
      shard: shardText(training, part, { form, context }),
      moments: [new Float32Array(size), new Float32Array(size)],
      residual: new Float64Array(size),
    };
  });
}

async function simulate(label: string, setup: Setup): Promise<void> {
  const { rounds, batch, context, seed, packing, eventBudget } = setup;
  const { rank, alpha, targets } = setup;
  const adapter = { rank, alpha, targets };
  const trainer = await openLocal({
    ...{ base: needSmolLM2(), context, batch, adapter, seed },
    ...{ optimizer: optimizerOf(setup), threads: Number(values.threads) },
  });
  const { layout, start } = trainer;
  const { tokens } = trainer.tokenizer.encode(text);
  const { training, validation } = splitText(tokens, { context });
  const used = training.subarray(0, Math.floor(setup.share * training.length));
  const workers = openWorkers(setup, used, layout.size);
  if (values.export !== undefined) {
    writePlan(values.export, { setup, trainer, workers, validation });
    return;
  }
  const at: Progress = {
    params: start,
    momentum: new Float32Array(start.length),
    losses: [],
    bytes: 0,
  };
  const state = join(STATES, `${toHex(sha256(utf8(label))).slice(0, 16)}.json`);
  restore(state, at, workers);
  if (at.losses.length === 0) at.losses.push(await trainer.evaluate(at.params, validation, 8));
  const packer =
    packing === 'none'
      ? undefined
      : createPacker({ run: RUN, layout, packing, eventBudget, sha256: nativeSha256 });
  for (let round = at.losses.length - 1; round < rounds; round++) {
    const started = performance.now();
    await playRound(at, { setup, trainer, workers, packer, round });
    at.losses.push(await trainer.evaluate(at.params, validation, 8));
    save(state, at, workers);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    console.log(`${label} round ${round + 1}: ${at.losses.at(-1)!.toFixed(4)}, ${seconds} s`);
  }
  const row = { label, losses: at.losses.map((loss) => Number(loss.toFixed(4))), bytes: at.bytes };
  appendFileSync(RESULTS, `${JSON.stringify(row)}\n`);
  rmSync(state);
}

interface Round {
  readonly setup: Setup;
  readonly trainer: LocalTrainer;
  readonly workers: readonly LocalWorker[];
  readonly packer: Packer | undefined;
  readonly round: number;
}

/** Everybody's inner steps, and the outer step. */
async function playRound(at: Progress, played: Round): Promise<void> {
  const { setup, workers, round } = played;
  const { owners, fragments } = setup;
  const { layout } = played.trainer;
  const size = layout.size;
  const base = stateDigest({ layout, values: at.params });
  const roster = workers.map(({ name }) => name);
  const assignment = assignChunks({ run: RUN, round, base, roster, owners, fragments, size });
  const cohort: Contribution[] = [];
  for (const worker of workers) {
    const delta = await trainOne(at.params, worker, played);
    const packed = played.packer?.pack(delta, { round, worker: worker.name, assignment });
    const sent = packed?.sent ?? whole(delta);
    if (packed) worker.residual = takeSent(delta, sent, setup.residual).residual;
    const payloadBytes = packed?.payload.length ?? 4 * size;
    at.bytes = Math.max(at.bytes, payloadBytes);
    cohort.push({
      ...{ worker: worker.name, eventId: worker.name, round, base, delta: sent, payloadBytes },
      ...{ examples: 1, steps: setup.innerSteps, createdAt: 0, eventBytes: 0 },
    });
  }
  const mean = meanDelta(cohort, { size, weights: 'equal', cap: 1, normalize: 'workers' });
  const outer = { learningRate: setup.outerLearningRate, momentum: setup.momentum };
  const stepped = nesterovStep(at.params, at.momentum, mean, outer);
  at.params = Float32Array.from(stepped.values);
  at.momentum = Float32Array.from(stepped.momentum);
}

/** Every value, as it is. */
function whole(delta: Float64Array): PartialVector {
  return {
    size: delta.length,
    chunks: Uint32Array.from({ length: chunkCount(delta.length) }, (_, i) => i),
    addChunk(position, weight, target, at) {
      const from = position * CHUNK_LENGTH;
      const values = delta.subarray(from, from + CHUNK_LENGTH);
      for (let i = 0; i < values.length; i++) target[at + i]! += weight * values[i]!;
    },
    weighChunk(position, weight, target, at) {
      const left = delta.length - position * CHUNK_LENGTH;
      for (let i = 0; i < Math.min(CHUNK_LENGTH, left); i++) target[at + i]! += weight;
    },
  };
}

async function trainOne(
  params: Float32Array,
  worker: LocalWorker,
  { setup, trainer, round }: Round,
): Promise<Float64Array> {
  const { innerSteps: steps, residual } = setup;
  const key = deriveKey('nostrain/batches', setup.seed, worker.name);
  const rows = rowsOf({ key, round, steps }, setup, worker.shard);
  const first = params.slice();
  const seen = round * steps;
  if (setup.moments === 'reset')
    worker.moments = worker.moments.map(({ length }) => new Float32Array(length));
  const [after, ...moments] = await trainer.train([first, ...worker.moments], {
    ...{ corpus: worker.shard, seen, rows },
  });
  worker.moments = moments;
  return deltaOf(params, after!, worker.residual, residual);
}

interface Plan {
  readonly setup: Setup;
  readonly trainer: LocalTrainer;
  readonly workers: readonly LocalWorker[];
  readonly validation: Tokens;
}

/** Texts, rows of every step, rates and first values, so that another program can take the very same steps. */
function writePlan(dir: string, { setup, trainer, workers, validation }: Plan): void {
  const { rounds, innerSteps: steps, seed } = setup;
  const optimizer = optimizerOf(setup);
  mkdirSync(dir, { recursive: true });
  const write = (name: string, { buffer, byteOffset, byteLength }: Float32Array | Int32Array) =>
    writeFileSync(join(dir, name), new Uint8Array(buffer, byteOffset, byteLength));
  write('validation.i32', Int32Array.from(validation));
  write('start.f32', trainer.start);
  const rows = workers.map(({ name, shard }, i) => {
    write(`shard-${i}.i32`, Int32Array.from(shard));
    const key = deriveKey('nostrain/batches', seed, name);
    return Array.from({ length: rounds }, (_, round) => [
      ...rowsOf({ key, round, steps }, setup, shard),
    ]);
  });
  const rates = Array.from({ length: rounds * steps }, (_, step) =>
    learningRateAt(optimizer.schedule, step),
  );
  const plan = {
    ...setup,
    model: needSmolLM2(),
    optimizer,
    rates,
    rows,
    slots: trainer.layout.slots,
  };
  writeFileSync(join(dir, 'plan.json'), JSON.stringify(plan));
}
