/** N-22: options by `--set name=value`: typed as the table says, refused with what to type instead, and never beside a flag of the same option. */
import { Command } from 'commander';
import { ConfigError } from 'nostrain/base';
import { fields, type Group, settingNames } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { connectionFlags } from '../../src/terminal/connection.ts';
import { addFlags, settingFlags, specFlags } from '../../src/terminal/flag-table.ts';
import {
  documentFromFlags,
  isReplaced,
  setOptionsOf,
  settingsFromFlags,
  specOptions,
} from '../../src/terminal/options.ts';
import { runCommand } from '../support/command-line.ts';

const set = (...pairs: readonly string[]) => pairs.flatMap((pair) => ['--set', pair]);
const parsed = (command: Command, ...words: readonly string[]): Command =>
  command
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .parse(words, { from: 'user' });
const settings = (...words: readonly string[]) =>
  settingsFromFlags(parsed(addFlags(new Command(), settingFlags()), ...words));
const document = (...words: readonly string[]) =>
  documentFromFlags(parsed(addFlags(new Command(), specFlags()), ...words));

function problemOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof ConfigError) return `${error.code}: ${error.message}; ${error.hint}`;
    throw error;
  }
  return 'none';
}

describe('--set', () => {
  it('takes a value of each form, as its flag would', () => {
    const typed = set('owners=2', 'hidden=8,4', 'packing=int8', 'stripe=2/3', 'helper=true');
    expect(settings(...typed, '--rounds', '3', '--no-evaluate')).toEqual({
      owners: 2,
      hidden: [8, 4],
      packing: 'int8',
      stripe: { need: 2, of: 3 },
      helper: true,
      rounds: 3,
      evaluate: false,
    });
    expect(settings(...set('owners=2', 'owners=3'))).toEqual({ owners: 3 });
    const groups = ['code=0,1', 'law=2'];
    expect(settings(...set('groups=code=0,1', 'groups=law=2'))).toEqual({ groups });
    expect(settings(...set('groups=code=0,1,law=2'))).toEqual({ groups });
    expect(settings(...set('targets=q=proj'))).toEqual({ targets: 'q=proj' });
  });

  it('takes fields of a spec by their path, lists by commas or again, and the kind they imply', () => {
    const key = 'ab'.repeat(32);
    expect(document(...set('committee.size=7', 'rule=krum', 'innerSeconds=5'))).toEqual({
      committee: { size: 7 },
      aggregation: { rule: 'krum' },
      pace: { innerSeconds: 5 },
    });
    expect(document(...set('places=https://a.example,https://b.example', 'jury=2'))).toEqual({
      places: ['https://a.example', 'https://b.example'],
      jury: 2,
    });
    expect(document(...set('places=https://a.example', 'places=https://b.example'))).toEqual({
      places: ['https://a.example', 'https://b.example'],
    });
    expect(document('--invite', key, '--founder', key)).toEqual({
      admission: { kind: 'list', keys: [key] },
      founders: [key],
    });
    expect(document(...set('admission.bits=8', 'sessions=true'))).toEqual({
      admission: { kind: 'work', bits: 8 },
      sessions: true,
    });
  });

  it.each([
    ['owners=x', 'flag/value: --set owners is "x"; it must be a whole number of at least 0'],
    ['owners=-1', 'flag/value: --set owners is "-1"; it must be'],
    ['helper=yes', 'flag/value: --set helper is "yes"; it must be true or false'],
    ['packing=zip', 'flag/value: --set packing is "zip"; it must be one of int8, trellis'],
    ['packing=int4', 'int4 was removed: use int8'],
    ['residual=owned', 'owned was removed: use none'],
    ['owners', 'flag/set: --set owners has no value; use --set owners=VALUE'],
    ['rounds=5', 'flag/set: rounds has a flag of its own: --rounds 5'],
    ['recompute=true', 'flag/set: recompute has a flag of its own: --recompute'],
    ['ownres=2', 'flag/set: unknown option "ownres"; did you mean owners?'],
    ['nothing.at.all=2', '`nostrain help settings` lists all'],
  ])('%s is refused', (pair, says) => {
    expect(problemOf(() => settings('--set', pair))).toContain(says);
  });

  it('is a wrong command line', async () => {
    const { exitCode, stderr } = await runCommand('plan', '--model', 'gpt', '--set', 'owners=x');
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('error (flag/value): --set o')]);
  });
});

describe('a flag of earlier versions', () => {
  it.each([
    [['--owners', '2'], '--owners is now --set owners=2'],
    [['--helper'], '--helper is now --set helper=true'],
    [['--stripe'], '--stripe is now --set stripe=VALUE'],
  ])('%j is answered with what to type', (words, says) => {
    expect(problemOf(() => settings(...words))).toBe(
      `flag/replaced: ${says}; type ${says.split(' is now ')[1]}`,
    );
  });

  it.each([
    [['--committee-size', '7'], '--set committee.size=7'],
    [['--rerun-jury', '2'], '--set jury=2'],
    [['--join-work', '8'], '--set admission.bits=8'],
    [['--rerun-relay', 'wss://a.example'], '--set rerun.relays=wss://a.example'],
    [['--rule', 'krum'], '--set rule=krum'],
  ])('%j of run create too', (words, now) => {
    expect(problemOf(() => document(...words))).toContain(`${words[0]} is now ${now}`);
  });

  it('says so to whoever types it', async () => {
    const { exitCode, stderr } = await runCommand('run-training', '--owners', '2');
    expect([exitCode, stderr]).toEqual([
      2,
      'error (flag/replaced): --owners is now --set owners=2\n  try: type --set owners=2\n',
    ]);
  });

  it.each([
    [['--overlap'], '--overlap was removed'],
    [['--adapter-train', 'b'], '--adapter-train was removed'],
  ])('%j has no successor, and says what to do', async (words, says) => {
    const { exitCode, stderr } = await runCommand('run-training', ...words);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(`error (flag/removed): ${says}\n  try: leave `);
  });
});

it('every option has one spelling: a flag, or --set', () => {
  const command = addFlags(new Command(), { ...settingFlags(), ...connectionFlags });
  const flags = command.options.filter((option) => !isReplaced(option));
  for (const name of setOptionsOf(command).keys()) {
    expect(flags.map((option) => option.attributeName())).not.toContain(name);
  }
  for (const name of settingNames) {
    const isSet = setOptionsOf(command).has(name);
    expect(isSet).toBe((fields as Group)[name]!.flag === undefined);
  }
  const old = command.options.filter(isReplaced).map(({ long }) => long);
  expect(new Set(old).size).toBe(old.length);
  expect(new Set(specOptions.map(({ name }) => name)).size).toBe(specOptions.length);
});
