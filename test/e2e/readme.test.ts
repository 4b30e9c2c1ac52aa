/**
 * N-22: README is a test, and so are the pages that go on from it. Their commands are run as they stand, in a folder of their own,
 * with the addresses of local relays in place of others' and with small sizes added where training would take minutes.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createProgram } from '../../src/cli/main.ts';
import { examples, typed } from '../support/examples.ts';
import { type Program, runProgram, startProgram, temporaryFolder } from '../support/processes.ts';
import { commandLines, flagsInText, typescriptBlocks, wordsOf } from '../support/readme.ts';
import { runBlock } from '../support/run-block.ts';
import { signerOf } from '../support/signers.ts';
import { writeTinyLlama } from '../support/tiny-llama.ts';
import { typeErrors } from '../support/type-errors.ts';

const relays: Relay[] = [];
const cwd = temporaryFolder();
const home = join(cwd, 'home');
const text = join(cwd, 'my-text.txt');
/** A published model as small as can be, in place of one from the hub. */
const base = join(cwd, 'tiny');
/** What one command leaves for the next ones. */
const made = { naddr: '', run: '', line: '' };

beforeAll(async () => {
  relays.push(await createRelay(), await createRelay());
  const words = 'to be or not to be, that is the question\n'.repeat(400);
  for (const name of [text, join(cwd, 'anything.bin')]) writeFileSync(name, words);
  await writeTinyLlama(base);
  const rows = Array.from({ length: 60 }, (_, i) => `${i % 7},${(i % 5) / 5},${(i % 7) - i / 60}`);
  writeFileSync(join(cwd, 'flats.csv'), ['rooms,distance,price', ...rows].join('\n'));
});
afterAll(async () => {
  for (const one of relays) await one.close();
});

/** The relays of this test are on this machine, those of the pages are not. */
const PRIVATE = '--allow-private-relays';

const SMALL = [
  ...[
    '--set',
    'width=16',
    '--set',
    'layers=1',
    '--set',
    'heads=2',
    '--context',
    '16',
    '--set',
    'ffn=32',
  ],
  ...['--rounds', '2', '--inner-steps', '3', '--batch-size', '4', '--corpus', text],
];

const TINY = [
  ...['--context', '32', '--rank', '2', '--rounds', '2', '--inner-steps', '3', '--batch-size', '4'],
];

/** The words after `nostrain`, with what only exists in this test put in place. */
const placed = (line: string): readonly string[] =>
  wordsOf(line)
    .slice(1)
    .map((word) =>
      word
        .replace(/^wss:\/\/relay\.example\.org$|^ws:\/\/(RELAY|127\.0\.0\.1):7777$/, relays[0]!.url)
        .replace(/^wss:\/\/other\.example\.org$/, relays[1]!.url)
        .replace(/^~\/\.local\/share\/nostrain/, home)
        .replace(/^hf:HuggingFaceTB\/.*$/, base)
        .replace(/^npub1…$/, signerOf(2).publicKey)
        .replace(/^naddr1…$/, made.naddr)
        .replace(/^nostrain1…$/, made.line)
        .replace(/^ID$/, made.run),
    );

async function runs(args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runProgram(args, home, cwd);
  expect(code, stderr.slice(-2000)).toBe(0);
  return stdout;
}

/** All workers that `--sync strict:N` waits for, each with its shard, on one machine; without shards each on a machine of its own. */
async function trains(args: readonly string[], small = SMALL): Promise<void> {
  const workers = Number(args[args.indexOf('--sync') + 1]!.split(':')[1]);
  const shard = args.indexOf('--shard');
  const programs: Program[] = Array.from({ length: workers }, (_, i) => {
    const own = shard < 0 ? args : args.with(shard + 1, `${i + 1}/${workers}`);
    return startProgram([...own, ...small], i === 0 || shard >= 0 ? home : temporaryFolder(), cwd);
  });
  for (const { exit, output } of programs) {
    expect(await exit, output.stderr.slice(-2000)).toBe(0);
  }
}

/** By the beginning of a command: how it is played. Every command of the pages has one. */
const plays: readonly (readonly [
  start: string,
  play: (args: readonly string[]) => Promise<unknown>,
])[] = [
  ['host tune', (args) => hosts(args, TINY)],
  ['host', (args) => hosts(args, SMALL)],
  ['join', runs],
  ['relay --host', (args) => serves(args, 'relay at ws://')],
  ['page', (args) => serves([...args, '--port', '0'], 'http://')],
  ['run-training --base', (args) => trains(args, TINY)],
  ['run-training --model mlp', (args) => trains(args, ['--rounds', '2', '--inner-steps', '3'])],
  ['run-training', (args) => trains(args)],
  ['relays check', (args) => runs([...args, '--seconds', '10'])],
  ['plan', runs],
  ['run create', creates],
  ['run join', (args) => runs([...args, PRIVATE, '--corpus', text])],
  ['run invite', (args) => runs([...args, PRIVATE])],
  ['run leave', leaves],
  ['archive', runs],
  ['replay', runs],
  ['sample', runs],
  ['model', runs],
];

/** The host, on the relay of this test, and friends who type the line that it prints. */
async function hosts(args: readonly string[], small: readonly string[]): Promise<void> {
  const people = Number(args[args.indexOf('--people') + 1]);
  const where = args.includes('--relay') ? [] : ['--relay', relays[0]!.url];
  // the model of this test is in a folder, which friends name; others come from the hub
  const named = args.includes('--base') ? ['--base', base] : [];
  const host = startProgram([...args, ...where, ...small, '--headless'], temporaryFolder(), cwd);
  while (!/nostrain1\w+/.test(host.output.stderr) && host.child.exitCode === null) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  made.line = /nostrain1\w+/.exec(host.output.stderr)?.[0] ?? '';
  const friends = Array.from({ length: people - 1 }, (_, i) =>
    startProgram(
      ['join', made.line, ...named, '--headless'],
      i === 0 ? home : temporaryFolder(),
      cwd,
    ),
  );
  for (const { exit, output } of [host, ...friends]) {
    expect(await exit, output.stderr.slice(-2000)).toBe(0);
  }
}

/** Until it says where it is; then it is asked to stop. */
async function serves(args: readonly string[], said: string): Promise<void> {
  const free = args.with(args.indexOf('--port') + 1, '0');
  const { child, exit, output } = startProgram(free, home, cwd);
  while (!output.stdout.includes(said)) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  child.kill('SIGINT');
  expect(await exit).toBe(0);
}

async function creates(args: readonly string[]): Promise<void> {
  const document = JSON.parse(await runs([...args, ...SMALL, '--json']));
  made.naddr = document.naddr;
  made.run = document.run;
}

/** A run of many rounds, in the middle of them. */
async function leaves(args: readonly string[]): Promise<void> {
  const long = ['--model', 'linear', '--rounds', '300', '--relay', relays[0]!.url, '--json'];
  const file = join(cwd, 'long.run.json');
  const { naddr } = JSON.parse(await runs(['run', 'create', ...long, '-o', file]));
  const dir = temporaryFolder();
  const joins = ['run', 'join', naddr, PRIVATE, '--report', 'ndjson', '--dir', dir];
  const worker = startProgram(joins, home, cwd);
  await worker.event(({ type }) => type === 'round');
  await runs([...args.map((word) => (word === made.naddr ? naddr : word)), PRIVATE]);
  expect(await worker.exit, worker.output.stderr.slice(-2000)).toBe(0);
  const left = worker.events.flatMap((each) => (each.type === 'round' ? each.certified!.left : []));
  expect(left).toHaveLength(1);
}

const INSTALLS = /^npm (ci|start|test)\b/;
/** In test/long. */
const LONG = /^nostrain demo /;

describe('N-22: README and the pages that go on from it', () => {
  const lines = commandLines.filter((line) => !INSTALLS.test(line) && !LONG.test(line));
  it.each(lines)('%s', { timeout: 240_000 }, async (line) => {
    const args = placed(line);
    const play = plays.find(([start]) => args.join(' ').startsWith(start))?.[1];
    if (!play) throw new Error('no test plays this command: add it to `plays`');
    await play(args);
  });

  it.each(flagsInText)('speak of a flag there is: $flag', async ({ flag, line }) => {
    expect(flagsOf(await createProgram()), line).toContain(flag);
  });

  it.each(typescriptBlocks.map((block, i) => ({ block, i })))(
    'their TypeScript, block $i, runs',
    { timeout: 120_000 },
    ({ block, i }) => runBlock(`readme-${i}`, block),
  );

  it('their TypeScript and that of the examples in comments compiles', { timeout: 120_000 }, () => {
    const blocks = typescriptBlocks.map((code, i) => ({ name: `block ${i}`, code }));
    const inComments = examples.map(({ where, code }) => ({ name: where, code: typed(code) }));
    expect(typeErrors([...blocks, ...inComments])).toEqual([]);
  });
});

/** Of a command and all commands below it. */
function flagsOf(command: Command): readonly string[] {
  return [
    ...command.options.flatMap(({ long }) => (long ? [long] : [])),
    ...command.commands.flatMap((each) => flagsOf(each)),
  ];
}
