/** Helpers: workers that hold the full model, and train a small tier and one slice more; what they move, and that all end in the same bits. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createRelay, type Relay } from 'nostrain/relay';
import { decodeSafetensors } from 'nostrain/tensor';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { helperSlice } from '../../src/run/helpers.ts';
import { runCommand } from '../support/command-line.ts';
import { type Program, startProgram, temporaryFolder } from '../support/processes.ts';
import { writeTinyLlama } from '../support/tiny-llama.ts';

const sizes = [
  '--set',
  'width=32',
  '--set',
  'layers=1',
  '--set',
  'heads=2',
  '--set',
  'ffn=64',
  '--context',
  '16',
];
/** Several processes, one after the other. */
const MINUTES = 5 * 60_000;
const programs: Program[] = [];
let relay: Relay;
beforeEach(async () => {
  relay = await createRelay();
});
afterEach(async () => {
  for (const { child } of programs.splice(0)) child.kill('SIGKILL');
  await relay.close();
});

interface Cast {
  readonly more: readonly string[];
  readonly dir?: string;
  readonly model?: readonly string[];
}

const line = (index: number, of: number, { more, dir = temporaryFolder(), model }: Cast) => [
  ...['run-training', '--run', 'helped', '--relay', relay.url, '--dir', dir],
  ...(model ?? ['--model', 'char-gpt', ...sizes]),
  ...['--tiers', '2', '--set', 'helperRotation=1', '--shard', `${index + 1}/${of}`],
  ...['--sync', `strict:${of}`, '--inner-steps', '2', '--device', 'cpu', ...more],
];

async function play(cast: readonly Cast[]) {
  const started = cast.map((each, index) =>
    startProgram([...line(index, cast.length, each), '--report', 'ndjson']),
  );
  programs.push(...started);
  await Promise.all(started.map((program) => program.event(({ type }) => type === 'done')));
  return started.map(({ events }) => events.filter((event) => event.type === 'round'));
}

/** The slices of a folder's state, each as one list of numbers. */
async function slicesIn(dir: string): Promise<readonly (readonly number[])[]> {
  const decoded = decodeSafetensors(await readFile(join(dir, 'state.safetensors')));
  if (!decoded.ok) throw new Error(decoded.issue.message);
  const slices: number[][] = [[], [], [], []];
  for (const { name, values } of decoded.value.tensors) {
    if (name.startsWith('nostrain.')) continue;
    slices[Number(/\.ring(\d)$/.exec(name)?.[1] ?? 0)]!.push(...values);
  }
  return slices;
}

describe('a run with helpers', () => {
  it(
    'E-12: moves the own tier and the slice of the round, and nothing else, bit for bit',
    async () => {
      const run = { count: 2, rotation: 1 };
      const dir = temporaryFolder();
      const help = ['--tier', '2', '--set', 'helper=true'];
      const states = [];
      for (const rounds of ['1', '2', '3']) {
        await play([{ dir, more: [...help, '--rounds', rounds] }]);
        states.push(await slicesIn(dir));
      }
      const [one, two, three] = states;
      const moved = (before: typeof one, after: typeof one) =>
        [0, 1, 2, 3].filter((slice) => String(before![slice]) !== String(after![slice]));
      const slice = (round: number) => helperSlice(run, 2, round);
      expect(moved(one, two)).toEqual([0, slice(1)]);
      expect(moved(two, three)).toEqual([0, slice(2)]);
      const sample = await runCommand('sample', dir, '--tier', '2', '--length', '5');
      expect(sample).toMatchObject({ exitCode: 0, stderr: '' });
    },
    MINUTES,
  );

  it(
    'ends in the same bits everywhere, and counts everybody',
    async () => {
      const rounds = await play([
        { more: ['--tier', '0', '--rounds', '2'] },
        { more: ['--tier', '2', '--rounds', '2'] },
        { more: ['--tier', '1', '--set', 'helper=true', '--rounds', '2'] },
      ]);
      for (const each of rounds) {
        expect(each.map(({ accepted }) => accepted.length)).toEqual([3, 3]);
        expect(each.at(-1)!.digest).toBe(rounds[0]!.at(-1)!.digest);
      }
      const outer = rounds.map((each) => each.at(-1)!.outer ?? []);
      expect(outer.map(({ length }) => length)).toEqual([3, 0, 3]);
      expect(outer[2]).toEqual(outer[0]);
    },
    MINUTES,
  );

  it(
    'E-12: a slice cannot be helped with, nor adapters',
    async () => {
      const home = temporaryFolder();
      const base = await writeTinyLlama(join(home, 'tiny'));
      const done = await runCommand('tiers', 'export', '--src', base, '--tiers', '1');
      expect(done.exitCode).toBe(0);
      const refused = async (from: string, ...more: string[]) => {
        const model = ['--base', from, '--context', '16'];
        const all = ['--tier', '2', '--set', 'helper=true', ...more];
        const { exitCode, stderr } = await runCommand(...line(0, 1, { model, more: all }));
        expect(exitCode).toBeGreaterThan(0);
        return stderr;
      };
      expect(await refused(`${base}-tier1`, '--rank', '0')).toMatch(/tiers\/helper.*is tier 1/);
      expect(await refused(base)).toMatch(/adapter\/helper/);
      const flags = line(0, 1, { more: ['--tier', '0', '--set', 'helper=true'] });
      expect((await runCommand(...flags)).stderr).toMatch(/flag\/unused.*--set helper goes with/);
    },
    MINUTES,
  );
});
