/** Certified runs of models of series, pictures and text: the same protocol, another `--model`; on synthetic data and on files. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { encode } from 'fast-png';
import { toHex } from 'nostrain/base';
import { syntheticSeries, syntheticShapes, writePlay } from 'nostrain/model';
import { createRelay, type Relay } from 'nostrain/relay';
import { parseRunSpec } from 'nostrain/run';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Program,
  runProgram,
  startProgram,
  temporaryFolder,
} from '../../support/processes.ts';
import { signerOf } from '../../support/signers.ts';

const home = temporaryFolder();
const programs: Program[] = [];
let relay: Relay;

/** A series as CSV, and shapes as a folder of PNG files for each class. */
const csv = join(home, 'waves.csv');
const folder = join(home, 'shapes');

beforeAll(async () => {
  relay = await createRelay();
  const { steps, channels, names, values } = syntheticSeries(5);
  const rows = Array.from({ length: steps }, (_, step) =>
    [step, ...values.subarray(step * channels, (step + 1) * channels)].join(','),
  );
  writeFileSync(csv, `${['time', ...names].join(',')}\n${rows.slice(0, 1200).join('\n')}\n`);
  const { classes, bytes, labels } = syntheticShapes(5, 12);
  for (const name of classes) mkdirSync(join(folder, name), { recursive: true });
  for (let i = 0; i < 80; i++) {
    const data = bytes.slice(i * 144, (i + 1) * 144);
    const file = join(folder, classes[labels[i]!]!, `${i}.png`);
    writeFileSync(file, encode({ width: 12, height: 12, channels: 1, data }));
  }
  writeFileSync(join(home, 'play.txt'), writePlay({ minimumBytes: 40_000 }));
});
afterAll(async () => {
  for (const { child } of programs.splice(0)) child.kill('SIGKILL');
  await relay.close();
});

const readText = (file: string) => readFileSync(file, 'utf8');
const keyOf = (number: number) => ['--sec-key', toHex(new Uint8Array(32).fill(number))];
const SMALL = [
  ...[
    '--set',
    'width=32',
    '--set',
    'layers=1',
    '--set',
    'heads=2',
    '--set',
    'ffn=64',
    '--rounds',
    '3',
  ],
  ...['--inner-steps', '80', '--set', 'committee.quorum=cft'],
  ...['--set', 'timing.graceMinMs=500', '--set', 'timing.viewMs=3000'],
];

async function create(name: string, workers: number, flags: readonly string[]): Promise<string> {
  const file = join(home, `${name}.run.json`);
  const founders = Array.from({ length: workers - 1 }, (_, i) => signerOf(i + 2).publicKey);
  const made = await runProgram([
    ...['run', 'create', '--name', name, '--relay', relay.url, '-o', file, ...keyOf(1), ...SMALL],
    ...founders.flatMap((key) => ['--founder', key]),
    ...flags,
  ]);
  expect(made.stderr).not.toContain('error');
  return file;
}

/** Runs all workers to their end. */
async function play(
  file: string,
  workers: number,
  flags: readonly string[] | ((i: number) => readonly string[]) = [],
) {
  const members = Array.from({ length: workers }, (_, i) =>
    startProgram([
      ...['run', 'join', file, '--relay', relay.url, '--report', 'ndjson', '--device', 'cpu'],
      ...['--threads', '1', '--dir', join(home, `${file.split('/').at(-1)}-${i}`), ...keyOf(i + 1)],
      ...(typeof flags === 'function' ? flags(i) : flags),
    ]),
  );
  programs.push(...members);
  return Promise.all(
    members.map(async (program) => {
      const done = await program.event(({ type }) => type === 'done');
      if (done.type !== 'done') throw new Error('not done');
      await program.exit;
      return done;
    }),
  );
}

describe('models of every form of data', { timeout: 240_000 }, () => {
  it.each([
    ['forecaster', [], []],
    ['vit', [], []],
    ['gpt', ['--context', '32'], ['--corpus', 'play.txt']],
  ])(
    'T-18: %s learns in three rounds of three workers, given only its name',
    async (model, sizes, corpus) => {
      const data = corpus.map((word) => (word.startsWith('--') ? word : join(home, word)));
      const file = await create(`three-${model}`, 3, ['--model', model, ...sizes, ...data]);
      const all = await play(file, 3, data);
      expect(new Set(all.map(({ digest }) => digest)).size).toBe(1);
      for (const { rounds, lossBefore, lossAfter } of all) {
        expect(rounds).toBe(3);
        expect(lossAfter).toBeLessThan(0.8 * lossBefore);
      }
      const [first] = all;
      if (model === 'vit') expect(first!.accuracy).toBeGreaterThan(0.4);
      else expect(first!.accuracy).toBeUndefined();
      const replayed = await runProgram(['replay', '--spec', file, '--relay', relay.url]);
      expect(replayed.stdout).toContain('ok: 3 rounds, all recomputed in full');
    },
  );

  it('a shared CSV: its hash and columns are in the spec, and its forecast is drawn', async () => {
    const flags = ['--set', 'horizon=8', '--context', '48', '--set', 'forecastError=quantile'];
    const file = await create('waves', 2, ['--model', 'forecaster', '--corpus', csv, ...flags]);
    const spec = parseRunSpec(readText(file));
    expect(spec.data).toMatchObject({ kind: 'corpus', shards: 2 });
    expect(spec.input).toMatchObject({ form: 'series', channels: 3, horizon: 8, patch: 8 });
    const [one, two] = await play(file, 2, ['--corpus', csv]);
    expect(one!.digest).toBe(two!.digest);
    const dir = join(home, 'waves.run.json-0');
    const { stdout } = await runProgram(['sample', dir, '--corpus', csv]);
    expect(stdout).toContain('o the next 8 steps, : quantiles 0.1 to 0.9');
    expect(stdout.split('\n').filter((line) => line.includes('o')).length).toBeGreaterThan(6);
    const out = join(home, 'forecast.csv');
    await runProgram(['sample', dir, '--corpus', csv, '-o', out]);
    const lines = readText(out).trim().split('\n');
    expect(lines).toHaveLength(9);
    expect(lines[1]!.split(',')).toHaveLength(1 + 3 * 3);
    expect(lines[1]).toMatch(/^1200,/);
  });

  it('a separate CSV per worker: the evaluation slice is in the spec, other columns are refused', async () => {
    const held = join(home, 'held.csv');
    const [heading, ...steps] = readText(csv).trim().split('\n');
    const part = (from: number, to: number) => [heading, ...steps.slice(from, to)].join('\n');
    writeFileSync(held, part(800, 1200));
    const own = [0, 400].map((from, i) => {
      const file = join(home, `own-${i}.csv`);
      writeFileSync(file, part(from, from + 400));
      return file;
    });
    const sizes = ['--set', 'horizon=8', '--context', '48'];
    const file = await create('own-series', 2, [
      ...['--model', 'forecaster', '--evaluation', held, ...sizes],
    ]);
    const spec = parseRunSpec(readText(file));
    expect(spec.data).toEqual({ kind: 'own' });
    expect(spec.input).toMatchObject({ form: 'series', channels: 3 });
    expect(spec.evaluation?.bytes).toBe(readText(held).length);
    const [one, two] = await play(file, 2, (i) => ['--corpus', own[i]!]);
    expect(one!.digest).toBe(two!.digest);
    // the same steps and the same model
    expect(one!.validationLoss).toBe(two!.validationLoss);
    const refused = await runProgram([
      ...['run', 'join', file, '--relay', relay.url, ...keyOf(3), '--dir', join(home, 'no')],
    ]);
    expect(refused.stderr).toContain('each worker of this run trains on its own data');
    expect(refused.stderr).toContain('CSV with a time column with --corpus');
    const other = join(home, 'other.csv');
    writeFileSync(other, readText(csv).replace(heading!, 'time,x,y,z'));
    const strange = await runProgram([
      ...['run', 'join', file, '--relay', relay.url, ...keyOf(3), '--dir', join(home, 'no')],
      ...['--corpus', other],
    ]);
    expect(strange.stderr).toContain('has the columns "x", "y", "z"; those of the run are');
    const { stdout } = await runProgram(['sample', join(home, 'own-series.run.json-0')]);
    expect(stdout).toContain('o the next 8 steps');
  });

  it('a separate folder of pictures per worker: one lacks some classes', async () => {
    const pick = (name: string, classes: readonly string[], odd: number) => {
      for (const each of classes) {
        const all = readdirSync(join(folder, each));
        mkdirSync(join(home, name, each), { recursive: true });
        for (const one of all.filter((_, i) => i % 3 === odd)) {
          copyFileSync(join(folder, each, one), join(home, name, each, one));
        }
      }
      return join(home, name);
    };
    const all = readdirSync(folder);
    const held = pick('held', all, 0);
    const own = [pick('mine', all, 1), pick('yours', all.slice(0, 3), 2)];
    const sizes = ['--set', 'pixels=12', '--set', 'patch=3'];
    const file = await create('own-shapes', 2, ['--model', 'vit', '--evaluation', held, ...sizes]);
    const spec = parseRunSpec(readText(file));
    expect(spec.input).toMatchObject({ form: 'images', channels: 1, classes: 4, pixels: 12 });
    const [one, two] = await play(file, 2, (i) => ['--corpus', own[i]!]);
    expect(one!.digest).toBe(two!.digest);
    expect(one!.accuracy).toBe(two!.accuracy);
    const { stdout } = await runProgram(['sample', join(home, 'own-shapes.run.json-0')]);
    expect(stdout).toMatch(/% (circle|cross|square|triangle) ✓/);
    mkdirSync(join(home, 'yours', 'spiral'));
    const strange = await runProgram([
      ...['run', 'join', file, '--relay', relay.url, ...keyOf(3), '--dir', join(home, 'never')],
      ...['--corpus', own[1]!],
    ]);
    expect(strange.stderr).toContain('has the class "spiral"; those of the run are "circle"');
  });

  it('a shared folder of pictures: other pictures are refused, one is classified', async () => {
    const sizes = ['--set', 'pixels=12', '--set', 'patch=3'];
    const file = await create('shapes', 2, ['--model', 'vit', '--corpus', folder, ...sizes]);
    const spec = parseRunSpec(readText(file));
    expect(spec.input).toMatchObject({ form: 'images', channels: 1, classes: 4, pixels: 12 });
    const [one, two] = await play(file, 2, ['--corpus', folder]);
    expect(one!.digest).toBe(two!.digest);
    const dir = join(home, 'shapes.run.json-0');
    const picture = join(folder, 'circle', '0.png');
    const guess = await runProgram(['sample', dir, '--corpus', folder, '--picture', picture]);
    expect(guess.stdout).toMatch(/\d+\.\d % (circle|cross|square|triangle)/);
    const other = join(home, 'other');
    for (const name of ['a', 'b']) {
      mkdirSync(join(other, name), { recursive: true });
      const data = new Uint8Array(144).fill(9);
      const bytes = encode({ width: 12, height: 12, channels: 1, data });
      for (const i of [1, 2]) writeFileSync(join(other, name, `${i}.png`), bytes);
    }
    const refused = await runProgram([
      ...['run', 'join', file, '--relay', relay.url, '--corpus', other, ...keyOf(3)],
      ...['--dir', join(home, 'refused')],
    ]);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('the run trains on those with');
  });
});
