/**
 * What a run ends at, without relays: the same trainer, codec, mean and outer step as the worker loop, four workers in
 * one process, one line of JSON per round. `npm run bench:diloco -- --corpus FILE '{"topk": 1, "form": "interleaved"}'`
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { deriveKey } from '../../src/base/rng.ts';
import { gptSpec, optimizerOf } from '../../src/cli/prepare.ts';
import { meanDelta } from '../../src/consensus/aggregate/mean.ts';
import { nesterovStep } from '../../src/consensus/outer/nesterov.ts';
import { type ShardForm, shardText, splitText } from '../../src/model/data/text.ts';
import { tokenizers } from '../../src/model/data/tokenizer.ts';
import { initialParameters } from '../../src/model/parameters.ts';
import { encodeNstr } from '../../src/network/codec/nstr.ts';
import { createTrainer, type Trainer } from '../../src/node/trainer.ts';
import type { Contribution } from '../../src/run/contribution.ts';
import { presets } from '../../src/run/presets.ts';
import { completeSettings, readSettings, type Settings } from '../../src/run/settings.ts';
import type { Vector } from '../../src/tensor/params.ts';
import { deltaWithResidual, takeSent } from '../../src/worker/residual.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { corpus: { type: 'string' }, workers: { type: 'string', default: '4' } },
});
if (!values.corpus) throw new Error('give a text with --corpus FILE');
const count = Number(values.workers);
const corpus = readFileSync(values.corpus);

interface Worker {
  readonly name: string;
  readonly trainer: Trainer;
  moments: readonly Float32Array[];
  residual: Float64Array;
}

for (const text of positionals.length > 0 ? positionals : ['{}']) {
  const { form = 'contiguous', ...given }: { form?: ShardForm } = JSON.parse(text);
  const unused = { run: 'bench', relay: [], model: 'char-gpt' } as const;
  const settings = completeSettings(presets['char-gpt'], unused, readSettings(given, 'settings'));
  await simulate(settings, form, text);
}

async function simulate(settings: Settings, form: ShardForm, label: string): Promise<void> {
  const { context, rounds, innerSteps, batchSize, seed } = settings;
  const tokenizer = tokenizers[settings.tokens];
  const { training, validation } = splitText(tokenizer.encode(corpus).tokens, { context });
  const model = gptSpec(settings, tokenizer.vocabulary);
  const workers = await Promise.all(
    Array.from({ length: count }, async (_, i): Promise<Worker> => {
      const shard = shardText(training, { index: i + 1, count }, { form, context });
      const data = { kind: 'tokens', shard, validation } as const;
      const setup = { model, optimizer: optimizerOf(settings), batch: batchSize, data };
      const trainer = await createTrainer({ ...setup, device: 'cpu', threads: 1 });
      return {
        name: `w${i}`,
        trainer,
        moments: [],
        residual: new Float64Array(trainer.layout.size),
      };
    }),
  );
  const { layout } = workers[0]!.trainer;
  let params: Vector = initialParameters(model, seed);
  let momentum: Vector = new Float32Array(layout.size);
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    const cohort: Contribution[] = [];
    for (let i = 0; i < count; i += 2) {
      const pair = workers.slice(i, i + 2).map((worker) => play(worker, params, round, settings));
      cohort.push(...(await Promise.all(pair)));
    }
    const mean = meanDelta(cohort, { size: layout.size, weights: 'equal', cap: 1 });
    const outer = { learningRate: settings.outerLearningRate, momentum: settings.momentum };
    const stepped = nesterovStep(params, momentum, mean, outer);
    params = stepped.values;
    momentum = stepped.momentum;
    const isLast = round === rounds - 1;
    const { trainer } = workers[0]!;
    const shared = Float32Array.from(params);
    const loss = await trainer.evaluate(shared, 'validation', isLast ? undefined : { batches: 8 });
    const seconds = (performance.now() - started) / 1000;
    const bytes = Math.max(...cohort.map(({ payloadBytes }) => payloadBytes));
    console.log(JSON.stringify({ label, round, loss, bytes, steps: innerSteps, seconds }));
  }
  await Promise.all(workers.map(({ trainer }) => trainer.close()));
}

async function play(
  worker: Worker,
  params: Vector,
  round: number,
  settings: Settings,
): Promise<Contribution> {
  const { innerSteps, seed, topk, errorFeedback } = settings;
  const { trainer } = worker;
  const task = {
    params: Float32Array.from(params),
    moments: worker.moments,
    round,
    steps: innerSteps,
    firstStep: round * innerSteps,
    batchKey: deriveKey('nostrain/batches', seed, worker.name),
  };
  const trained = await trainer.train(task, () => undefined, new AbortController().signal);
  worker.moments = trained.moments;
  const delta = deltaWithResidual(params, trained.params, worker.residual);
  const { sent, stats } = encodeNstr({ layout: trainer.layout, values: delta }, { ratio: topk });
  takeSent(delta, sent);
  worker.residual = errorFeedback ? delta : new Float64Array(delta.length);
  return {
    worker: worker.name,
    eventId: worker.name,
    round,
    base: '',
    delta: sent,
    examples: 1,
    steps: innerSteps,
    createdAt: 0,
    payloadBytes: stats.containerBytes,
    eventBytes: 0,
  };
}
