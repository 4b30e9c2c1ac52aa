/** Every flag is obeyed or refused: a number that is none, one that cannot be, and a flag that would do nothing beside the others. */
import { readFile } from 'node:fs/promises';
import type { Command, Option } from 'commander';
import { parseRunSpec } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { createProgram, wordError } from '../../src/cli/main.ts';
import { isReplaced, settingsFromFlags } from '../../src/terminal/options.ts';
import { runCommand } from '../support/command-line.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const NUMBERS = /<(?:n|s|x|ms|k|unix|ratio|bytes|bits|share|days|round|k\/n|n,\.\.)>/;
/** Of commands of the Python reference, a number that cannot be is a wrong value: exit code 1, as it is there. */
const REFERENCE = /^(?:settings\/value|training\/)/;

/** Python seeds with any number. */
const SIGNED = /init-state --seed/;

interface Case {
  readonly name: string;
  readonly command: Command;
  readonly option: Option;
}

const casesOf = (command: Command, path: string): readonly Case[] => [
  ...command.options.map((option) => ({ name: `${path} ${option.flags}`, command, option })),
  ...command.commands.flatMap((each) => casesOf(each, `${path} ${each.name()}`)),
];

const all = casesOf(await createProgram(), 'nostrain');
const cases = all.filter(({ option }) => NUMBERS.test(option.flags));
const switches = all.filter(
  ({ option }) => !/[<[]/.test(option.flags) && option.long !== '--version' && !isReplaced(option),
);

/** What happens to a command line that says so; undefined where it is taken. */
function refusal({ command, option }: Case, value: string) {
  try {
    command.parseOptions([option.long!, value]);
    // read when it runs, since with STATE and DATASET it is a command of the Python reference
    if (command.name() === 'run-training') settingsFromFlags(command);
    return undefined;
  } catch (error) {
    return { ...wordError(error), error };
  } finally {
    command.setOptionValueWithSource(option.attributeName(), undefined, undefined);
  }
}

describe('a flag that takes a number', () => {
  it('is one of very many', () => {
    expect(cases.length).toBeGreaterThan(300);
  });

  it.each(cases)('$name refuses what is no number', (each) => {
    for (const value of ['abc', '', '1x', 'Infinity', '0x10z']) {
      const told = refusal(each, value);
      expect(told?.text, `${each.option.long} ${value}`).toContain(each.option.long!.slice(2));
      const { code } = told!.error as { readonly code: string };
      expect(told?.exitCode, `${code} ${value}`).toBe(REFERENCE.test(code) ? 1 : 2);
    }
  });

  it.each(cases.filter(({ name }) => !SIGNED.test(name)))(
    '$name refuses a number below all',
    (each) => {
      const told = refusal(each, '-3');
      expect(told?.text).toContain(each.option.long!.slice(2));
      const { code } = told!.error as { readonly code: string };
      expect(told?.exitCode, code).toBe(REFERENCE.test(code) ? 1 : 2);
    },
  );
});

describe('a flag without a value', () => {
  it('is one of many', () => {
    expect(switches.length).toBeGreaterThan(40);
  });

  it.each(switches)('$name says yes, or no where it begins with no', ({ command, option }) => {
    command.parseOptions([option.long!]);
    expect(command.getOptionValue(option.attributeName())).toBe(!option.negate);
    command.setOptionValueWithSource(option.attributeName(), undefined, undefined);
  });
});

it('every setting is checked as it is typed', async () => {
  for (const [flag, value] of [
    ['--rounds', '-3'],
    ['--rounds', 'abc'],
    ['--model', 'chargpt'],
    ['--sync', 'strict'],
  ]) {
    const { exitCode, stderr } = await runCommand('run-training', flag!, value!);
    expect([flag, exitCode]).toEqual([flag, 2]);
    expect(stderr).toContain(`error (flag/value): ${flag} is "${value}"; it must be `);
  }
  const { exitCode, stderr } = await runCommand('run-training', '--set', 'stripe=3/2');
  expect(exitCode).toBe(2);
  expect(stderr).toContain('error (flag/value): --set stripe is "3/2"; it must be like 2/3');
});

describe('a flag that would do nothing', () => {
  const folder = temporaryFolder();
  const train = ['run-training', '--run', 'r', '--relay', 'ws://127.0.0.1:9', '--model'];
  it.each([
    [[...train, 'linear', '--corpus', 'text.txt'], '--corpus goes with models of text'],
    [[...train, 'linear', '--set', 'width=64'], '--set width goes with models of text'],
    [[...train, 'char-gpt', '--set', 'hidden=64'], '--set hidden goes with --model mlp'],
    [
      [...train, 'linear', '--set', 'weightDecay=0.1'],
      '--set weightDecay goes with --optimizer adamw',
    ],
    [[...train, 'mlp', '--topk', '0.1'], '--topk goes with --set profile=nostrain/0'],
    [
      [...train, 'linear', '--set', 'eventBudget=4096'],
      '--set eventBudget goes with --set packing=trellis',
    ],
    [
      [...train, 'linear', '--set', 'leastSteps=3'],
      '--set leastSteps goes with --set innerSeconds',
    ],
    [[...train, 'linear', '--codec', 'zstd'], '--codec goes with --set profile=nostrain/0'],
    [[...train, 'mlp', '--branch', 'a'.repeat(64)], '--branch goes with --spec'],
    [
      [...train, 'mlp', '--set', 'profile=nostrain/0', '--set', 'packing=int8'],
      '--set packing goes with --set profile=nostrain/1',
    ],
    [['run-training', 'a.json', 'b.json', '--run', 'r', '--relay', 'ws://127.0.0.1:9', '--device', 'cuda'], '--device goes with --model'], // biome-ignore format: one line
    [['plan', '--model', 'linear', '--set', 'heads=2'], '--set heads goes with models of text'],
    [['demo', 'certified', '--relay', 'ws://127.0.0.1:9'], '--relay goes with demo gpt'],
    [['demo', 'certified', '--workers', '3'], '--workers goes with demo gpt'],
    [['demo', 'certified', '--rounds', '3'], '--rounds goes with demo gpt'],
    [['demo', 'certified', '--inner-steps', '3'], '--inner-steps goes with demo gpt'],
    [['demo', 'certified', '--profile', 'nostrain/0'], '--profile goes with demo gpt'],
    [['demo', 'certified', '--settings', 'x.json'], '--settings goes with demo gpt'],
    [['demo', 'certified', '--long'], '--long goes with demo gpt'],
    [['demo', 'certified', '--reference'], '--reference goes with demo linear'],
    [['demo', 'gpt', '--reference'], '--reference goes with demo linear'],
    [['demo', 'linear', '--corpus', 'text.txt'], '--corpus goes with demo gpt'],
    [['relay', '--seed', '3'], '--seed goes with --faults'],
    [['replay', '--events', 'x', '--relay', 'ws://127.0.0.1:9'], '--relay goes with relays'],
    [['explain', '--events', 'x', '--round', '1', '--worker', 'w', '--timeout', '3'], '--timeout goes with relays'], // biome-ignore format: one line
    [['witness', 'who', '--spec', 'x', '--members', 'y'], '--members goes with a draw'],
    [['witness', 'who', '--run', 'x', '--stake', 'y'], '--stake goes with --spec'],
    [['demo', 'linear', '--reference', '--seed', '2'], '--seed goes with demos without'],
    [['plan', '--model', 'linear', '--check'], '--check goes with --relay'],
    [[...train, 'mlp', '--output-format', 'json'], '--output-format goes with -o FILE'],
    [[...train, 'mlp', '--state-format', 'json'], '--state-format goes with STATE and DATASET'],
    [['witness', 'inspect', '--relay', 'ws://127.0.0.1:9'], '--relay goes with --spec'],
    [['stake', 'snapshot', '--from', 'file', '--rpc', 'http://127.0.0.1:9'], '--rpc goes with'],
    [
      ['stake', 'snapshot', '--from', 'erc20', '--account', 'a'],
      '--account goes with --from psyche',
    ],
    [['run', 'create', '--model', 'linear', '--corpus', 'x', '--sec-key', '1'.repeat(64), '-o', 'OUT'], '--corpus goes with'], // biome-ignore format: one line
    [['run', 'create', '--model', 'linear', '--set', 'width=8', '--sec-key', '1'.repeat(64), '-o', 'OUT'], '--set width goes with'], // biome-ignore format: one line
    [['run', 'create', '--model', 'linear', '--set', 'relayRate=8', '--sec-key', '1'.repeat(64), '-o', 'OUT'], '--set relayRate goes with --relay'], // biome-ignore format: one line
  ])('%j is refused', async (words, says) => {
    const { exitCode, stderr } = await runCommand(
      ...words.map((word) => (word === 'OUT' ? folder('run.json') : word)),
    );
    expect(stderr).toContain(`error (flag/unused): ${says}`);
    expect(exitCode).toBe(2);
  });
});

describe('a spec by flags', () => {
  const folder = temporaryFolder();
  it('has the requested time-based local steps', async () => {
    const seconds = ['--set', 'innerSeconds=30', '--inner-steps', '500', '--set', 'leastSteps=5'];
    const file = folder('run.json');
    const place = ['--sec-key', '1'.repeat(64), '-o', file];
    const { exitCode } = await runCommand(
      'run',
      'create',
      '--model',
      'linear',
      ...seconds,
      ...place,
    );
    expect(exitCode).toBe(0);
    const spec = parseRunSpec(await readFile(file, 'utf8'));
    expect(spec.pace).toEqual({ innerSeconds: 30, leastSteps: 5 });
    expect(spec.features).toEqual(['pace', 'trust']);
  });
});

it.each([
  [['run', 'join', 'x.json', '--sec-key', '1'.repeat(64), '--key-file', 'k'], '--sec-key'],
  [['witness', 'inspect', '--keys', '3', '--members', 'm'], '--keys'],
  [['witness', 'who', '--round', '3', '--epoch', '2'], '--epoch'],
])('%j: one of two is refused', async (words, flag) => {
  const { exitCode, stderr } = await runCommand(...words);
  expect(exitCode).toBe(2);
  expect(stderr).toContain(flag);
  expect(stderr).toContain('cannot be used with');
});

it('run leave and witness who take no branch, which they could not follow', async () => {
  for (const words of [
    ['run', 'leave'],
    ['witness', 'who'],
  ]) {
    const { stdout } = await runCommand(...words, '--help');
    expect(stdout).not.toContain('--branch');
    expect(stdout).not.toContain('--trust');
  }
});
