/**
 * Certified runs with several tiers of a published model: created, joined with the full model and with slices, replayed
 * and exported.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { modelLayout, modelOfRun, writePlay } from 'nostrain/model';
import { exportTiers, tierFolder } from 'nostrain/node/parts';
import { loadModelState as readStateFile } from 'nostrain/python/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { parseRunSpec } from 'nostrain/run';
import type { Params, Vector } from 'nostrain/tensor';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endOf, keyFlags, programsOn } from '../../support/certified-programs.ts';
import { type Program, runProgram, temporaryFolder } from '../../support/processes.ts';
import { signerOf } from '../../support/signers.ts';
import { writeTinyLlama } from '../../support/tiny-llama.ts';

const home = temporaryFolder();
const corpus = join(home, 'play.txt');
const base = join(home, 'tiny');
let relay: Relay;
const { joinRun, replay, killAll } = programsOn(() => relay, corpus);

beforeAll(async () => {
  relay = await createRelay();
  await writeTinyLlama(base);
  await exportTiers(base, [1], { signal: new AbortController().signal });
  writeFileSync(corpus, writePlay({ minimumBytes: 40_000 }));
});
afterAll(async () => {
  killAll();
  await relay.close();
});

const SMALL = [
  ...['--rounds', '5', '--inner-steps', '200', '--batch-size', '2', '--context', '16'],
  ...['--corpus', corpus, '--local-learning-rate', '0.01', '--set', 'committee.quorum=cft'],
  ...[
    '--set',
    'timing.graceMinMs=500',
    '--set',
    'timing.viewMs=3000',
    '--set',
    'minAcceptPermille=0',
  ],
];

const making = (name: string, ...flags: readonly string[]) => [
  ...['run', 'create', '--name', name, '-o', join(home, `${name}.run.json`), '--tiers', '2'],
  ...['--founder', signerOf(2).publicKey, ...keyFlags(1), ...SMALL, ...flags],
  ...['--set', 'admission.kind=open'],
];

/** Creates a run of workers 1 and 2; returns its file. */
async function create(name: string, ...flags: readonly string[]): Promise<string> {
  const made = await runProgram(making(name, '--base', base, '--relay', relay.url, ...flags));
  expect(made.stderr).not.toContain('error');
  return join(home, `${name}.run.json`);
}

const specOf = (file: string) => parseRunSpec(readFileSync(file, 'utf8'));

const roundsOf = ({ events }: Program) => events.filter((each) => each.type === 'round');

/**
 * Founders of tier 0 and 0, a worker of tier 1 with a sliced model, and one of tier 2 from the full model, each with
 * its own folder.
 */
async function playedBy(file: string, name: string) {
  const cast = [
    ['0', base],
    ['0', base],
    ['auto', tierFolder(base, 1)],
    ['2', base],
  ] as const;
  const dirs = cast.map((_, i) => join(home, `${name}-${i}`));
  const start = (i: number) =>
    joinRun(i + 1, file, '--base', cast[i]![1], '--tier', cast[i]![0], '--dir', dirs[i]!);
  // founders finish the run alone, so the others must join before
  const parts = [start(2), start(3)];
  for (const part of parts) await part.event(({ type }) => type === 'hello');
  const workers = [start(0), start(1), ...parts];
  await Promise.all(workers.map(endOf));
  return { dirs, workers };
}

const sameBits = (a: Vector, b: Vector): boolean => a.every((value, i) => Object.is(value, b[i]));

/**
 * Checks that workers with some slices have the same bits as those with all; partial contributions counted, and only
 * full workers signed.
 */
async function expectAgreed(
  file: string,
  { dirs, workers }: Awaited<ReturnType<typeof playedBy>>,
): Promise<void> {
  const spec = specOf(file);
  const states = await Promise.all(dirs.map((dir) => readStateFile(dir)));
  const tensorsOf = ({ layout, values }: Params) =>
    layout.slots.map(
      ({ name, offset, size }) => [name, values.slice(offset, offset + size)] as const,
    );
  const whole = new Map(tensorsOf(states[0]!));
  [0, 0, 1, 2].forEach((tier, i) => {
    const held = tensorsOf(states[i]!);
    expect(held).toHaveLength(modelLayout(modelOfRun(spec, tier)).slots.length);
    const other = held.filter(([name, values]) => !sameBits(values, whole.get(name)!));
    expect(other.map(([name]) => name)).toEqual([]);
  });
  const rounds = roundsOf(workers[0]!);
  for (const number of [3, 4]) {
    const { publicKey } = signerOf(number);
    expect(rounds.some(({ accepted }) => accepted.includes(publicKey))).toBe(true);
    expect(rounds.some(({ certified }) => certified!.signers.includes(publicKey))).toBe(false);
  }
}

describe('a certified run of tiers of a published model', { timeout: 180_000 }, () => {
  it('adapters of all layers: equal slices in all tiers; replayed with and without the base; sampled, exported', async () => {
    const file = await create('all-linear', '--rank', '4', '--set', 'targets=all-linear');
    const spec = specOf(file);
    expect(spec.features).toEqual(expect.arrayContaining(['start', 'widths']));
    expect(spec.start!.rings).toHaveLength(3);
    expect(spec.start!.files.map(({ name }) => name)).toContain('model.safetensors');
    const played = await playedBy(file, 'all-linear');
    await expectAgreed(file, played);
    const banners = played.workers.map(({ events }) =>
      events.flatMap((each) =>
        each.type === 'notice' && each.message.includes('strategy') ? [each.message] : [],
      ),
    );
    expect(banners[2]![0]).toContain('requested auto), effective tier 1, strategy sliced');
    expect(banners[3]![0]).toContain('effective tier 2, strategy universal');

    // resuming needs the same tier and the same base
    const on = await endOf(joinRun(4, file, '--dir', played.dirs[3]!));
    const before = played.workers[3]!.events.find((each) => each.type === 'done');
    expect(on).toMatchObject({ digest: before!.digest, rounds: 5 });

    const without = await replay(file);
    expect(without.stderr).toContain('the base is not needed');
    expect(without.stdout).toContain('ok: 5 rounds, all recomputed in full');
    const told = await replay(file, '--base', base, '--corpus', corpus, '--json');
    const report = JSON.parse(told.stdout);
    expect(report).toMatchObject({ ok: true, rounds: 5 });
    expect(report.evaluation.after).toBeLessThan(report.evaluation.before);
    const part = await replay(file, '--base', tierFolder(base, 1));
    expect(part.stderr).toMatch(/tiers\/slice.*is tier 1/);

    const archive = join(home, 'all-linear.jsonl');
    const kept = await runProgram(['archive', '--spec', file, '--relay', relay.url, '--out', archive]); // biome-ignore format: one line
    expect(kept.stderr).not.toContain('error');
    const again = await runProgram(['replay', '--spec', file, '--events', archive]);
    expect(again.stdout).toContain('ok: 5 rounds, all recomputed in full');
    const counted = roundsOf(played.workers[0]!).find(({ accepted }) =>
      accepted.includes(signerOf(4).publicKey),
    )!;
    const why = await runProgram([
      ...['explain', '--events', archive, '--worker', signerOf(4).publicKey],
      ...['--round', `${counted.index + 1}`, '--json'],
    ]);
    expect(JSON.parse(why.stdout)).toMatchObject({ counted: true });

    const text = await runProgram(['sample', played.dirs[0]!, '--tier', '2', '--prompt', 'To', '--length', '4']); // biome-ignore format: one line
    expect(text.stderr).not.toContain('error');
    const peft = join(home, 'half-adapter');
    const out = await runProgram(['model', 'export', played.dirs[2]!, '--peft', peft]);
    expect(out.stderr).not.toContain('error');
    expect(JSON.parse(readFileSync(join(peft, 'adapter_config.json'), 'utf8')).r).toBe(4);
  });

  it('all parameters in owned chunks: the spec names the root of each slice; a replay checks votes without the base, the model with it', async () => {
    const file = await create('whole', '--rank', '0', '--set', 'owners=1');
    expect(specOf(file).start!.root).toHaveLength(3);
    const played = await playedBy(file, 'whole');
    await expectAgreed(file, played);
    const without = await replay(file);
    expect(without.stdout).toContain('not checked in full: 0 of 5 rounds recomputed');
    const told = await replay(file, '--base', base, '--corpus', corpus);
    expect(told.stdout).toContain('ok: 5 rounds, all recomputed in full');
  });

  it('a run cannot be created from a slice, nor with adapters that do not fit the smallest tier', async () => {
    const slice = await runProgram(making('refused', '--base', tierFolder(base, 1)));
    expect(slice.code).toBe(1);
    expect(slice.stderr).toMatch(
      /tiers\/slice.*is tier 1, and creating a run needs the full model/,
    );
    const wide = ['--base', base, '--set', 'targets=all-linear', '--rank', '16'];
    const large = await runProgram(making('large', ...wide));
    expect(large.code).toBe(1);
    expect(large.stderr).toMatch(/adapter\/rank.*rank 16 does not fit .* 32 x 12.*from 1 to 12/s);
  });
});
