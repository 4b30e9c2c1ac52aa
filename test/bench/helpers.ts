/**
 * What helpers bring a run (docs/tiers.md): two workers of the full model alone, with two of a quarter of its width, and with the same two as helpers
 * that take a slice more in turn. Every worker is a process, each with a quarter of the text; told is the validation loss of the full model.
 *
 *   npm run --silent build && npm run bench:helpers -- FILE
 */

import type { RunEvent } from 'nostrain/certified';
import { createRelay } from 'nostrain/relay';
import { startProgram, temporaryFolder } from '../support/processes.ts';

const [corpus] = process.argv.slice(2);
if (corpus === undefined) throw new TypeError('name the text to train on');

const SEEDS = [1, 2];
const WORKERS = 4;
const SAME = [
  ...[
    '--model',
    'char-gpt',
    '--set',
    'width=64',
    '--set',
    'layers=2',
    '--set',
    'heads=4',
    '--set',
    'ffn=1024',
  ],
  ...['--context', '64', '--batch-size', '16', '--rounds', '12', '--inner-steps', '25'],
  ...['--tiers', '2', '--device', 'cpu', '--threads', '1', '--report', 'ndjson'],
];

/** Flags of the workers beside the two of the full model, and rounds after which helpers take another slice. */
const casts: Readonly<
  Record<string, { readonly small: readonly string[][]; readonly rotation: number }>
> = {
  'two of tier 0 alone': { small: [], rotation: 1 },
  'and two of tier 2': {
    small: [
      ['--tier', '2'],
      ['--tier', '2'],
    ],
    rotation: 1,
  },
  'and two helpers, another slice every round': {
    small: [
      ['--tier', '2', '--set', 'helper=true'],
      ['--tier', '2', '--set', 'helper=true'],
    ],
    rotation: 1,
  },
  'and two helpers, another slice every 4 rounds': {
    small: [
      ['--tier', '2', '--set', 'helper=true'],
      ['--tier', '2', '--set', 'helper=true'],
    ],
    rotation: 4,
  },
};

async function play(name: string, seed: number): Promise<readonly number[]> {
  const { small, rotation } = casts[name]!;
  const relay = await createRelay();
  const cast = [['--tier', '0'], ['--tier', '0'], ...small];
  const programs = cast.map((flags, i) =>
    startProgram([
      ...['run-training', '--run', 'helped', '--relay', relay.url, '--corpus', corpus!],
      ...['--dir', temporaryFolder(), '--shard', `${i + 1}/${WORKERS}`, '--seed', `${seed}`],
      ...['--sync', `strict:${cast.length}`, '--set', `helperRotation=${rotation}`],
      ...[...SAME, ...flags],
    ]),
  );
  await Promise.all(programs.map((program) => program.event(({ type }) => type === 'done')));
  await Promise.all(programs.map(({ exit }) => exit));
  await relay.close();
  return programs[0]!.events.flatMap(lossIn);
}

const lossIn = (event: RunEvent): readonly number[] =>
  event.type === 'round' && event.validationLoss !== undefined ? [event.validationLoss] : [];

for (const seed of SEEDS) {
  for (const name of Object.keys(casts)) {
    const losses = await play(name, seed);
    const shown = [losses[0], losses[5], losses.at(-1)].map((loss) => loss?.toFixed(3));
    console.log(
      `seed ${seed}: ${name}: after rounds 1, 6 and ${losses.length}: ${shown.join(', ')}`,
    );
  }
}
