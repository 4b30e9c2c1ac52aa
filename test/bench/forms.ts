/**
 * The forecaster and the vision transformer beside PyTorch: the same model, first parameters, batches and AdamW on the same data, and their
 * losses on what was held out. On synthetic data, and on what `test/bench/torch/export_forms.py` wrote.
 *
 *   npm run bench:forms -- [--data FOLDER] [--only NAME] [--steps 300] [--python .bench/torch/bin/python]
 */

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { deriveKey } from 'nostrain/base';
import {
  dataFormOf,
  drawRows,
  evenRows,
  holdData,
  initialParameters,
  optimizerOf,
  type TrainerData,
} from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { combineSettings, type PartialSettings, presets } from 'nostrain/run';
import { prepareTask } from '../../src/node/data/task.ts';
import { openStored } from '../../src/node/data/token-file.ts';

const { values: flags } = parseArgs({
  options: {
    data: { type: 'string' },
    only: { type: 'string', multiple: true },
    steps: { type: 'string', default: '300' },
    python: { type: 'string', default: '.bench/torch/bin/python' },
  },
});
const steps = Number(flags.steps);

interface Case {
  readonly name: string;
  readonly model: 'forecaster' | 'vit';
  readonly asked?: PartialSettings;
  /** In the folder of `--data`. */
  readonly corpus?: string;
}

/** Of short series. */
const small = { width: 32, layers: 1, ffn: 64 } as const;

const cases: readonly Case[] = [
  { name: 'waves', model: 'forecaster' },
  { name: 'waves, quantiles', model: 'forecaster', asked: { forecastError: 'quantile' } },
  { name: 'shapes', model: 'vit' },
  {
    ...{ name: 'sunspots', model: 'forecaster', corpus: 'sunspots.csv' },
    asked: { context: 24, horizon: 11, patch: 4, ...small },
  },
  {
    ...{ name: 'elnino', model: 'forecaster', corpus: 'elnino.csv' },
    asked: { context: 36, horizon: 12, patch: 4, ...small },
  },
  {
    ...{ name: 'co2', model: 'forecaster', corpus: 'co2.csv' },
    asked: { context: 104, horizon: 26, patch: 8, ...small },
  },
  {
    ...{ name: 'digits', model: 'vit', corpus: 'digits' },
    asked: { pixels: 8, patch: 2 },
  },
];

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView) =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** What PyTorch reads. */
function leave(folder: string, data: TrainerData): void {
  const put = (name: string, numbers: ArrayBufferView) =>
    writeFileSync(join(folder, name), bytesOf(numbers));
  for (const part of ['shard', 'validation'] as const) {
    if (data.kind === 'series') put(`${part}.values`, data[part].values);
    if (data.kind !== 'images') continue;
    put(`${part}.pixels`, data[part].pixels);
    put(`${part}.labels`, data[part].labels);
  }
}

/** Where drawn rows lie in a part. */
const placed = (data: TrainerData, on: 'shard' | 'validation', rows: Int32Array) =>
  data.kind === 'series' ? rows.map((row) => data[on].starts[row]!) : rows;

const lengthOf = (data: TrainerData, on: 'shard' | 'validation') =>
  data.kind === 'series'
    ? data[on].starts.length
    : data.kind === 'images'
      ? data[on].labels.length
      : 0;

async function compare({ name, model, asked = {}, corpus }: Case): Promise<void> {
  const rate = {
    optimizer: 'adamw',
    localLearningRate: 1e-3,
    warmupSteps: 0,
    finalShare: 1,
  } as const;
  const settings = combineSettings(presets[model], {
    ...{ run: 'bench', relay: [], model, ...rate, innerSteps: steps, rounds: 1, ...asked },
  });
  const { signal } = new AbortController();
  const sources = { signal, onNotice: () => {} };
  const file = corpus === undefined ? undefined : join(flags.data ?? '', corpus);
  const task = await prepareTask(settings, { ...sources, corpus: file });
  const { data } = task;
  const folder =
    flags.data === undefined
      ? mkdtempSync(join(tmpdir(), 'forms-'))
      : join(flags.data, `${name.replace(/\W+/g, '-')}-parts`);
  mkdirSync(folder, { recursive: true });
  leave(folder, data);
  const batchKey = deriveKey('bench forms');
  const params = initialParameters(task.model, 1);
  const { batchSize: batch, weightDecay, clipNorm } = settings;
  const draw = { key: batchKey, round: 0, firstStep: 0, steps, batch };
  const rows = placed(data, 'shard', drawRows({ ...draw, bound: lengthOf(data, 'shard') }));
  writeFileSync(join(folder, 'params'), bytesOf(params));
  writeFileSync(join(folder, 'rows'), bytesOf(rows));
  const { stride } = holdData(dataFormOf(task.model), data, { model, openStored });
  const held = evenRows(lengthOf(data, 'validation'), stride, Number.POSITIVE_INFINITY);
  writeFileSync(join(folder, 'held'), bytesOf(placed(data, 'validation', held)));
  const adamw = { lr: settings.localLearningRate, weightDecay };
  const said = { spec: task.model, batch, clipNorm, adamw };
  writeFileSync(join(folder, 'task.json'), JSON.stringify(said));

  const trainer = await createTrainer({
    ...{ ...task, optimizer: optimizerOf(settings), batch, device: 'cpu' as const, threads: 1 },
  });
  const plan = { params, moments: [], round: 0, steps, firstStep: 0, batchKey };
  const trained = await trainer.train(plan, () => {}, signal);
  const loss = await trainer.evaluate(trained.params, 'validation');
  const accuracy = await trainer.accuracy?.(trained.params, 'validation');
  await trainer.close();

  const script = fileURLToPath(new URL('torch/forms.py', import.meta.url));
  const peer = spawnSync(flags.python, [script, folder], {
    encoding: 'utf8',
    env: { ...process.env, OMP_NUM_THREADS: '1' },
  });
  if (peer.status !== 0) throw new Error(peer.stderr);
  const theirs = JSON.parse(peer.stdout) as {
    loss: number;
    accuracy: number | null;
    seconds: number;
  };
  const right =
    accuracy === undefined
      ? ''
      : `, right ${accuracy.toFixed(4)} and ${theirs.accuracy!.toFixed(4)}`;
  console.log(
    `${name}: ${params.length} parameters, ${steps} steps of ${batch}: validation loss ${loss.toFixed(5)}, PyTorch ${theirs.loss.toFixed(5)} ` +
      `(${(100 * (loss / theirs.loss - 1)).toFixed(2)} %)${right}; ${trained.seconds.toFixed(1)} s and ${theirs.seconds.toFixed(1)} s`,
  );
}

for (const each of cases) {
  if (flags.only?.includes(each.name) === false) continue;
  if (each.corpus === undefined) await compare(each);
  else if (flags.data !== undefined && existsSync(join(flags.data, each.corpus)))
    await compare(each);
}
