/** Layout of the help texts: commands and flags in groups, examples, and the topics `settings` and `python`. */
import { type Command, Help, type HelpConfiguration, Option } from 'commander';
import type { Group } from '../run/field.ts';
import { fields } from '../run/options.ts';
import { defaultWords, isReplaced, specOptions } from '../terminal/options.ts';
import { clip, wrap } from '../terminal/render/text.ts';
import { examplesOf } from './examples.ts';

/** Headings of the command list, in order. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  'Start here:': [
    'host',
    'join',
    'demo',
    'relay',
    'run-training',
    'run',
    'sample',
    'runs',
    'page',
    'doctor',
  ],
  'Models:': ['model', 'tiers'],
  'Runs on this machine:': ['show', 'watch', 'clean', 'keygen', 'whoami'],
  'Relays:': ['relays', 'plan', 'handler'],
  'Certified runs:': ['replay', 'archive', 'explain', 'scores', 'receipt', 'challenge'],
  'Committees and stake:': ['witness', 'stake'],
  'Large files:': ['checkpoint', 'directory', 'placement'],
  'Data:': ['corpus'],
  'Private data:': ['shard', 'attest'],
  'Other programs:': ['serve', 'train'],
  'Shell:': ['completion'],
};
const PYTHON = 'Commands of the Python reference (rounds from 0, as there):';

/** Headings of flag groups, in order. A flag without a heading is basic; headings of single commands come last. */
export const flagHeadings: readonly string[] = ['Basic:', 'Training:', 'Network:'];

export const flagGroup = (option: Option): string => option.helpGroupHeading ?? flagHeadings[0]!;

export const commandGroup = (name: string): string =>
  Object.entries(COMMANDS).find(([, names]) => names.includes(name))?.[0] ?? PYTHON;

const usual = new Help();

export const helpConfiguration: HelpConfiguration = {
  groupItems<T extends Command | Option>(
    unsorted: T[],
    visible: T[],
    groupOf: (item: T) => string,
  ): Map<string, T[]> {
    const heading = (item: T) => (item instanceof Option ? flagGroup(item) : groupOf(item));
    const groups = [...usual.groupItems(unsorted, visible, heading)];
    const known = groups.filter(([name]) => flagHeadings.includes(name));
    const extra = groups.filter(([name]) => !flagHeadings.includes(name));
    const orderOf = (name: string) => flagHeadings.indexOf(name);
    return new Map([...known.sort(([a], [b]) => orderOf(a) - orderOf(b)), ...extra]);
  },
};

/** Adds the examples to each command: one example below the help, two above it. */
export function dressHelp(program: Command): void {
  const dress = (command: Command, path: string): void => {
    const lines = examplesOf(path).map((line) => `  ${line.replaceAll('\n', '\n  ')}`);
    if (lines.length === 1) command.addHelpText('after', `\nExample:\n${lines[0]}`);
    if (lines.length > 1) command.addHelpText('before', `Examples:\n${lines.join('\n')}\n`);
    for (const each of command.commands) dress(each, `${path} ${each.name()}`);
  };
  for (const command of program.commands) dress(command, command.name());
}

const WIDTH = 80;

/** Formats names and the first clause of their descriptions in two columns. */
function columns(rows: readonly (readonly [string, string])[]): readonly string[] {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, meaning]) => {
    const clause = meaning.split(/[;:(]/)[0]!.trim();
    return clip(`  ${name.padEnd(width)}  ${clause}`, WIDTH);
  });
}

/** Returns the text of `nostrain --help`: the commands for new users, then the names of all others. */
export function programHelp(program: Command): string {
  const described = new Map(program.commands.map((each) => [each.name(), each.description()]));
  const [[start, first], ...others] = Object.entries(COMMANDS) as [
    [string, readonly string[]],
    ...[string, readonly string[]][],
  ];
  return [
    'Usage: nostrain COMMAND [arguments] [options]',
    '',
    program.description(),
    '',
    start,
    ...columns(first.map((name) => [name, described.get(name) ?? ''])),
    '',
    'More commands:',
    ...columns(others.map(([heading, names]) => [heading, names.join(', ')])),
    '',
    'nostrain COMMAND --help   flags and an example of a command',
    'nostrain help settings    every option of --set name=value',
    'nostrain help python      commands and flags of the Python reference',
    'nostrain --version        the version',
    '',
  ].join('\n');
}

/** Returns the text of `nostrain help settings`: every option without a flag, and how to set it. */
export function settingsHelp(): string {
  const row = (name: string, each: Group[string]) => {
    const words = defaultWords(name, each);
    const help = words === '' ? each.help : `${each.help} (default: ${words})`;
    return [`  ${each.flag ?? name}`, ...wrap(help, WIDTH - 6).map((line) => `      ${line}`)];
  };
  const settings = Object.entries<Group[string]>(fields);
  const ofSpec = specOptions.filter(({ name, row: each }) => fields[name as never] !== each);
  return [
    'Options without a flag are typed --set name=value, as often as needed, in',
    'nostrain run-training, plan, run create and run join. A settings file holds the',
    'same names: {"owners": 2}. Lists have commas between their items.',
    '',
    'Settings of a run and its workers:',
    ...settings.flatMap(([name, each]) => row(name, each)),
    '',
    'Fields of a run spec, for nostrain run create:',
    ...ofSpec.flatMap(({ name, row: each }) => row(name, each)),
    '',
  ].join('\n');
}

/** Returns the text of `nostrain help python`: commands of the Python reference, and its flags of `run-training`. */
export function pythonHelp(program: Command): string {
  const commands = program.commands.filter((each) => commandGroup(each.name()) === PYTHON);
  const training = program.commands.find((each) => each.name() === 'run-training')!;
  const flags = training.options.filter((option) => option.hidden && !isReplaced(option));
  const rows = (pairs: readonly (readonly [string, string])[]) =>
    pairs.flatMap(([name, help]) => [
      `  ${name}`,
      ...wrap(help, WIDTH - 6).map((line) => `      ${line}`),
    ]);
  return [
    PYTHON,
    ...columns(commands.map((each) => [each.name(), each.description()])),
    '',
    'nostrain run-training STATE DATASET also takes:',
    ...rows(flags.map((option) => [option.flags, option.description])),
    '',
  ].join('\n');
}
