/** Runs with a spec as users share them: one creates it, all join with the printed command. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256Hex, toHex } from 'nostrain/base';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type Program,
  runProgram,
  startProgram,
  temporaryFolder,
} from '../../support/processes.ts';
import { signerOf } from '../../support/signers.ts';

const relays: Relay[] = [];
const programs: Program[] = [];
afterEach(async () => {
  for (const { child } of programs.splice(0)) child.kill('SIGKILL');
  for (const one of relays.splice(0)) await one.close();
});

async function relay(): Promise<string> {
  const one = await createRelay();
  relays.push(one);
  return one.url;
}

const keyOf = (number: number) => ['--sec-key', toHex(new Uint8Array(32).fill(number))];

/** Creates and publishes a run of workers 1 and 2; returns its address. */
async function create(url: string, ...flags: readonly string[]): Promise<string> {
  const file = join(temporaryFolder(), 'run.json');
  const founder = ['--founder', signerOf(2).publicKey];
  const made = await runProgram([
    ...['run', 'create', '--relay', url, '-o', file, '--json'],
    ...[...keyOf(1), ...founder, ...flags],
  ]);
  expect(made.stderr).not.toContain('error');
  return JSON.parse(made.stdout).naddr;
}

function joinRun(number: number, address: string, ...flags: readonly string[]): Program {
  const program = startProgram([
    ...['run', 'join', address, '--allow-private-relays', '--report', 'ndjson'],
    ...[...keyOf(number), ...flags],
  ]);
  programs.push(program);
  return program;
}

async function endOf(program: Program) {
  const done = await program.event(({ type }) => type === 'done');
  if (done.type !== 'done') throw new Error('not done');
  return done;
}

const SMALL = [
  ...[
    '--model',
    'gpt',
    '--set',
    'width=16',
    '--set',
    'layers=1',
    '--set',
    'heads=2',
    '--context',
    '16',
  ],
  ...['--set', 'ffn=32', '--rounds', '2', '--inner-steps', '5', '--batch-size', '4'],
];
const text = (words: string) => `${words}\n`.repeat(200);

describe('a run with a spec', { timeout: 120_000 }, () => {
  it('two workers join by address and end in the same bits; the same command resumes', async () => {
    const url = await relay();
    const address = await create(url, '--model', 'linear', '--rounds', '3');
    const dir = temporaryFolder();
    const pair = [joinRun(1, address, '--dir', dir), joinRun(2, address)];
    const [one, two] = await Promise.all(pair.map(endOf));
    expect(one!.digest).toBe(two!.digest);
    expect(one!.rounds).toBe(3);
    const run = pair[0]!.events.find(({ type }) => type === 'hello');
    expect(run?.type === 'hello' ? run.run : '').toMatch(/^[0-9a-f]{64}$/);
    await Promise.all(pair.map(({ exit }) => exit));

    // its folder has the spec, so resuming does not need a relay with it
    const other = await relay();
    const again = joinRun(1, address, '--dir', dir, '--relay', other);
    expect((await endOf(again)).digest).toBe(one!.digest);
  });

  it('the printed command of a run with stakes works: its relays have the table', async () => {
    const url = await relay();
    const folder = temporaryFolder();
    const [list, table] = [join(folder, 'list.txt'), join(folder, 'stakes.json')];
    const keys = [1, 2].map((number) => signerOf(number).publicKey);
    writeFileSync(list, keys.map((key, i) => `${key} ${100 * (i + 1)}\n`).join(''));
    const snapshot = ['stake', 'snapshot', '--from', 'file', '--list', list, '-o', table];
    expect(await runProgram(snapshot)).toMatchObject({ stderr: expect.stringContaining('2 keys') });
    const file = join(folder, 'run.json');
    const flags = ['--model', 'linear', '--rounds', '3', '--set', 'committee.weights=stake'];
    const made = await runProgram([
      ...['run', 'create', '--relay', url, '-o', file, '--stake', table, ...flags],
      ...['--founder', keys[1]!, ...keyOf(1)],
    ]);
    const line = /nostrain run join .*/.exec(made.stdout)![0].split(' ');
    const [one, two] = [1, 2].map((number) => {
      const program = startProgram([...line.slice(1), '--report', 'ndjson', ...keyOf(number)]);
      programs.push(program);
      return program;
    });
    const [first, second] = await Promise.all([endOf(one!), endOf(two!)]);
    expect(first.digest).toBe(second.digest);
  });

  it('--discover-relays adds relays that workers name, private ones only if allowed', async () => {
    const [url, other] = [await relay(), await relay()];
    const address = await create(url, '--model', 'linear', '--rounds', '3');
    const both = ['--relay', url, '--relay', other, '--advertise-relay', other];
    const one = joinRun(1, address, ...both);
    await one.event(({ type }) => type === 'waiting');
    const strict = ['run', 'join', address, '--relay', url, '--discover-relays', ...keyOf(2)];
    expect((await runProgram(strict)).stderr).toContain('error (flag/discover-relays)');
    const two = joinRun(2, address, '--discover-relays');
    expect((await endOf(two)).digest).toBe((await endOf(one)).digest);
    expect(two.output.stderr).toContain(`workers also use ${other}`);
  });

  it('refuses flags that contradict the spec by name, and a wrong text with both hashes', async () => {
    const url = await relay();
    const folder = temporaryFolder();
    const [right, wrong] = [join(folder, 'right.txt'), join(folder, 'wrong.txt')];
    writeFileSync(right, text('the cat sat on the mat'));
    writeFileSync(wrong, text('the dog ran to the cat'));
    const address = await create(url, ...SMALL, '--corpus', right);
    const flags = ['--rounds', '9', '--momentum', '0.9', '--corpus', right];
    const odd = joinRun(1, address, ...flags);
    expect(await odd.exit).toBe(2);
    expect(odd.output.stderr).toContain('--rounds is 9, but the run has 2');
    expect(odd.output.stderr).toContain('make another with `nostrain run create --rounds N`');
    expect(odd.output.stderr).toContain('--momentum is 0.9, but the run has 0.5');

    const other = joinRun(1, address, '--corpus', wrong);
    expect(await other.exit).toBe(1);
    expect(other.output.stderr).toContain('error (corpus/other)');
    expect(other.output.stderr).toContain(sha256Hex(Buffer.from(text('the cat sat on the mat'))));
    expect(other.output.stderr).toContain(sha256Hex(Buffer.from(text('the dog ran to the cat'))));
    expect(other.output.stderr).toContain('name that text with --corpus FILE');
  });

  it('workers with their own texts evaluate on the slice published with the run', async () => {
    const url = await relay();
    const folder = temporaryFolder();
    const files = ['slice', 'one', 'two'].map((name) => join(folder, `${name}.txt`));
    // more than a chunk
    writeFileSync(files[0]!, text('and the slice is for everybody').repeat(10));
    writeFileSync(files[1]!, text('the cat sat on the mat'));
    writeFileSync(files[2]!, text('a dog ran to the cat and away'));
    const address = await create(url, ...SMALL, '--evaluation', files[0]!);
    const nameless = joinRun(1, address);
    expect(await nameless.exit).toBe(2);
    expect(nameless.output.stderr).toContain('name your text with --corpus PATH');

    const pair = [1, 2].map((number) => joinRun(number, address, '--corpus', files[number]!));
    const [one, two] = await Promise.all(pair.map(endOf));
    expect(one!.digest).toBe(two!.digest);
    expect(one!.validationLoss).toBeGreaterThan(0);
    expect(one!.validationLoss).toBe(two!.validationLoss);
  });
});
