/**
 * What a model is worth whose groups train their own experts (docs/results/experts.md), without relays: the same
 * trainer, assignment, packing, mean and outer step as in a certified run, all workers in one process, one after the
 * other. Each argument is a set of settings as JSON over those below; `"on": "code"` trains a dense model of that
 * group's workers alone, `"on": "all"` one of all workers on both texts:
 *
 *   npm run bench:experts -- --shakespeare FILE '{}' '{"on": "shakespeare"}' '{"on": "code"}' '{"on": "all"}'
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { nesterovStep } from 'nostrain/consensus';
import {
  gptSpec,
  initialParameters,
  optimizerOf,
  shardText,
  splitText,
  tokenizers,
} from 'nostrain/model';
import { createPacker } from 'nostrain/network';
import { createTrainer, nativeSha256 } from 'nostrain/node';
import { combineSettings, presets, readSettings, type Settings } from 'nostrain/run';
import { type Params, stateDigest } from 'nostrain/tensor';
import { assignChunks, deltaOf } from 'nostrain/worker';
import { assignGroups, trainedIn } from '../../src/certified/decisions/groups.ts';
import { numbersFor } from '../../src/node/files/trained-run.ts';
import { groupsOf } from '../../src/run/groups.ts';
import { stepsOf } from '../../src/worker/train.ts';
import { groupedSpec } from '../support/groups.ts';
import { meanDelta } from '../support/mean.ts';

/** Bytes of each text: one pass of a run. */
const TEXT_BYTES = 500_000;
const RUN = 'bench';
const dense = {
  ...{ width: 64, layers: 2, heads: 2, context: 64, ffn: 124, batchSize: 8, tokens: 'bytes' },
  ...{ on: 'groups', workers: 2, owners: 0 },
};
/** Two experts as wide as a dense layer together, and half the bytes of a dense payload. */
const groups = {
  ...{ experts: 4, groups: ['shakespeare=0,1', 'code=2,3'], ffn: 62, eventBudget: 19_290 },
};

type Asked = Record<string, unknown> & { readonly on: string; readonly workers: number };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { shakespeare: { type: 'string' } },
});
if (!values.shakespeare) throw new Error('give a text with --shakespeare FILE');
const texts = new Map([
  ['shakespeare', textOf(readFileSync(values.shakespeare))],
  ['code', textOf(Buffer.from(programText()))],
]);
for (const label of positionals) await simulate(label);

function programText(): string {
  const folder = fileURLToPath(new URL('../../src', import.meta.url));
  const files = readdirSync(folder, { recursive: true }).map(String).sort();
  const sources = files.filter((name) => name.endsWith('.ts'));
  return sources.map((name) => readFileSync(`${folder}/${name}`, 'utf8')).join('');
}

function textOf(bytes: Uint8Array) {
  const { tokens } = tokenizers.bytes.encode(bytes.subarray(0, TEXT_BYTES));
  return splitText(tokens, { context: dense.context });
}

function readSetup(label: string) {
  const given = JSON.parse(label);
  const isDense = (given.on ?? dense.on) !== dense.on;
  const all = { ...dense, ...(isDense ? {} : groups), ...given } as Asked;
  const { on, workers, ...asked } = all;
  const settings = combineSettings(presets['char-gpt'], {
    ...{ run: RUN, relay: [], model: 'char-gpt' },
    ...readSettings(asked, 'settings'),
  });
  const names = [...texts.keys()].filter((name) => ['groups', 'all', name].includes(on));
  return { on, workers, settings, names };
}

async function openWorkers({ settings, names, workers }: ReturnType<typeof readSetup>) {
  const { context, batchSize } = settings;
  const open = async (name: string, i: number) => {
    const { training, validation } = texts.get(name)!;
    const part = { index: (i % workers) + 1, count: workers };
    const shard = shardText(training, part, { form: 'interleaved', context });
    const data = { kind: 'tokens', shard, validation } as const;
    const model = gptSpec({ ...settings, group: name }, tokenizers.bytes.vocabulary);
    const setup = { model, optimizer: optimizerOf(settings), batch: batchSize, data };
    const trainer = await createTrainer({ ...setup, device: 'cpu', threads: 1 });
    const moments: readonly Float32Array[] = [];
    return { name, key: `${i}`.repeat(64), trainer, moments };
  };
  const all = names.flatMap((name) => Array<string>(workers).fill(name));
  return Promise.all(all.map(open));
}

/** Returns the chunks of each worker in a round, and the ranges that it trains. */
function partsIn(
  settings: Settings,
  size: number,
  workers: Awaited<ReturnType<typeof openWorkers>>,
) {
  const { experts, groups, warmupRounds, sharedEvery, rounds } = settings;
  const roster = workers.map(({ key }) => key);
  const whole = (round: number) =>
    assignChunks({ run: RUN, round, base: '0'.repeat(64), roster, owners: 0, fragments: 1, size });
  if (experts === 0)
    return (round: number) => ({ assignment: whole(round), trains: () => undefined });
  const { width, layers, heads, context, ffn } = settings;
  const spec = groupedSpec([0, 1, 2, 3], {
    ...{ rounds, training: { width, layers, heads, context, ffn } },
    mixture: { experts, groups, warmupRounds, sharedEvery },
  });
  const indices = groupsOf(spec.mixture).map(({ name }) => name);
  const members = workers.map(({ key, name }) => ({
    ...{ key, tip: null, joined: 0, lastSeen: 0, seenBefore: 0, seatFrom: 0 },
    features: { experts: { group: indices.indexOf(name) } },
  }));
  return (round: number) => {
    const assignment = assignGroups(whole(round), spec, { round, members });
    const trains = (key: string) => trainedIn(spec, round, assignment.chunksOf(key));
    return { assignment, trains };
  };
}

async function simulate(label: string): Promise<void> {
  const setup = readSetup(label);
  const { on, settings } = setup;
  const { rounds, seed, packing, eventBudget } = settings;
  const started = performance.now();
  const workers = await openWorkers(setup);
  const { layout } = workers[0]!.trainer;
  const partsOf = partsIn(settings, layout.size, workers);
  const packer = createPacker({ run: RUN, layout, packing, eventBudget, sha256: nativeSha256 });
  const model = gptSpec(settings, tokenizers.bytes.vocabulary);
  let params: Params = { layout, values: initialParameters(model, seed) };
  let momentum = new Float32Array(layout.size) as Params['values'];
  const bytes: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const { assignment, trains } = partsOf(round);
    const cohort = [];
    for (const worker of workers) {
      const { key, trainer } = worker;
      const task = { params: params.values.slice(), moments: worker.moments, trains: trains(key) };
      const steps = stepsOf({ round, worker: key }, settings);
      const { signal } = new AbortController();
      const trained = await trainer.train({ ...task, ...steps }, () => undefined, signal);
      worker.moments = trained.moments;
      const delta = deltaOf(params.values, trained.params, new Float64Array(layout.size), 'none');
      const { payload, sent } = packer.pack(delta, { round, worker: key, assignment });
      bytes.push(payload.length);
      cohort.push({
        ...{ worker: key, eventId: key, round, base: stateDigest(params), delta: sent },
        ...{ examples: trained.examples, steps: settings.innerSteps, createdAt: 0 },
        ...{ payloadBytes: payload.length, eventBytes: 0 },
      });
    }
    const { normalize, outerLearningRate: learningRate, momentum: keep } = settings;
    const mean = meanDelta(cohort, { size: layout.size, weights: 'equal', cap: 1, normalize });
    const stepped = nesterovStep(params.values, momentum, mean, { learningRate, momentum: keep });
    params = { layout, values: stepped.values };
    momentum = stepped.momentum;
  }
  const losses = await lossesOf(params, settings, on === 'groups');
  const meanBytes = Math.round(bytes.reduce((sum, each) => sum + each, 0) / bytes.length);
  const seconds = Math.round((performance.now() - started) / 1000);
  console.log(JSON.stringify({ label, ...losses, bytes: meanBytes, size: layout.size, seconds }));
  await Promise.all(workers.map(({ trainer }) => trainer.close()));
}

/** Returns the loss on the held-out part of each text, of the whole model and without the other group's experts. */
async function lossesOf(params: Params, settings: Settings, hasGroups: boolean) {
  const measured: Record<string, number> = {};
  for (const name of texts.keys()) {
    const others = [...texts.keys()].filter((other) => other !== name);
    for (const without of hasGroups ? [undefined, ...others] : [undefined]) {
      const { training, validation } = texts.get(name)!;
      const model = gptSpec(settings, tokenizers.bytes.vocabulary, without);
      const data = { kind: 'tokens', shard: training, validation } as const;
      const setup = { model, optimizer: optimizerOf(settings), batch: settings.batchSize, data };
      const trainer = await createTrainer({ ...setup, device: 'cpu', threads: 1 });
      const all = { layout: params.layout, values: Float32Array.from(params.values) };
      const loss = await trainer.evaluate(numbersFor(all, trainer.layout)!, 'validation');
      measured[without === undefined ? name : `${name} without ${without}`] = Number(
        loss.toFixed(4),
      );
      await trainer.close();
    }
  }
  return measured;
}
