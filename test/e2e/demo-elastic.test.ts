/** `nostrain demo elastic` from the command line, with a model small enough for a test. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ElasticDocument } from '../../demos/elastic/document.ts';
import { runProgram, temporaryFolder } from '../support/processes.ts';

/** A folder, and the flags of a demo in it whose model is small enough. */
function smallDemo() {
  const dir = temporaryFolder();
  const settings = join(dir, 'settings.json');
  const corpus = join(dir, 'corpus.txt');
  const small = { width: 32, ffn: 256, layers: 1, heads: 2, context: 16, batchSize: 8 };
  writeFileSync(settings, JSON.stringify({ model: 'char-gpt', ...small }));
  writeFileSync(corpus, 'To be, or not to be, that is the question. '.repeat(400));
  return [
    ...['demo', 'elastic', '--json', '--dir', join(dir, 'demo'), '--corpus', corpus],
    ...['--settings', settings, '--rounds', '3', '--inner-steps', '10', '--no-controls'],
  ];
}

it('E-11: tiers 0, 1 and 2 train one model; every loss falls, and all agree where they hold the same values', async () => {
  const { code, stdout, stderr } = await runProgram([
    ...smallDemo(),
    ...['--tiers', '0,1,2', '--latency', '5'],
  ]);
  expect(code, stderr).toBe(0);
  const document: ElasticDocument = JSON.parse(stdout);
  expect(document).toMatchObject({ agreed: true, alone: null, whole: null, aboveAlone: null });
  expect(document.faults).toEqual({ delay: { shape: 'uniform', minMs: 5, maxMs: 5 } });
  expect(document.workers.map(({ tier, width }) => [tier, width])).toEqual([
    [0, 256],
    [1, 128],
    [2, 64],
  ]);
  expect(document.workers[0]!.share).toBe(1);
  expect(document.workers[2]!.parameters).toBeLessThan(document.parameters);
  expect(document.workers.every(({ peakBytes }) => peakBytes! > 1e6)).toBe(true);
  for (const { validationLosses } of document.tiers) {
    expect(validationLosses).toHaveLength(3);
    expect(validationLosses.at(-1)).toBeLessThan(validationLosses[0]!);
  }
  expect(document.rounds.every(({ accepted }) => accepted === 3)).toBe(true);
});

it('E-09: as a certified run, which only those of the full model sign, it replays to the root that all hold', async () => {
  const { code, stdout, stderr } = await runProgram([
    ...smallDemo(),
    ...['--tiers', '0,2', '--certified'],
  ]);
  expect(code, stderr).toBe(0);
  const document: ElasticDocument = JSON.parse(stdout);
  expect(document).toMatchObject({ agreed: true, replay: { ok: true, rounds: 3 } });
  // the round after the one that lists a newcomer waits for it
  expect(document.rounds.map(({ accepted }) => accepted).slice(0, 2)).toEqual([1, 2]);
  expect(document.workers[1]!.parameters).toBeLessThan(document.parameters);
  for (const { validationLosses } of document.tiers) {
    expect(validationLosses.at(-1)).toBeLessThan(validationLosses[0]!);
  }
});
