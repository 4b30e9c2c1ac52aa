/** docs/reference/commands.md: every command with its arguments and flags, from the command tree itself. */
import type { Command, Option } from 'commander';
import { examples, examplesOf } from '../../src/cli/examples.ts';
import { commandGroup, flagGroup, flagHeadings } from '../../src/cli/help.ts';
import { createProgram } from '../../src/cli/main.ts';
import { code, table } from './markdown.ts';

const commandOrder = [
  ...new Set(Object.keys(examples).map((path) => commandGroup(path.split(' ')[0]!))),
];
/** Headings in the order of the help; those of a command itself come last. */
const placeOf = (heading: string): number => {
  const at = flagHeadings.indexOf(heading);
  return at < 0 ? Number.MAX_SAFE_INTEGER : at;
};

/** A default that the help says in words at its end. */
function splitDefault(text: string): { readonly words: string; readonly fallback?: string } {
  const found = /^(.*) \(default: (.*)\)$/.exec(text);
  return found === null ? { words: text } : { words: found[1]!, fallback: found[2]! };
}

export async function renderCommands(): Promise<string> {
  const program = await createProgram();
  const all = program.commands.flatMap((command) => leavesOf(command, []));
  const contents = program.commands
    .filter((command) => !isHidden(command))
    .map((command) => ({ command, at: commandOrder.indexOf(commandGroup(command.name())) }))
    .sort((a, b) => a.at - b.at)
    .map(({ command }) => [
      commandGroup(command.name()).replace(/:$/, ''),
      `[${code(command.name())}](#${anchor(`nostrain ${leavesOf(command, [])[0]!.path.join(' ')}`)})`,
      sentence(command.description()),
    ]);
  return [
    '# Commands',
    'Every command with its arguments and flags, as `--help` tells them. `nostrain COMMAND --help` prints the same.',
    table(['group', 'command', 'what it does'], contents),
    ...all.map(section),
  ].join('\n\n');
}

interface Leaf {
  readonly path: readonly string[];
  readonly command: Command;
}

const isHidden = (command: Command): boolean => '_hidden' in command && command._hidden === true;

/** The command and all below it that do something. */
function leavesOf(command: Command, above: readonly string[]): readonly Leaf[] {
  if (isHidden(command)) return [];
  const path = [...above, command.name()];
  const own = command.commands.length === 0 ? [{ path, command }] : [];
  return [...own, ...command.commands.flatMap((each) => leavesOf(each, path))];
}

const anchor = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w -]/g, '')
    .replaceAll(' ', '-');
const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

function section({ path, command }: Leaf): string {
  const name = `nostrain ${path.join(' ')}`;
  const words = command.registeredArguments.map((argument) => [
    code(argument.required ? `<${argument.name()}>` : `[${argument.name()}]`),
    argument.description,
    defaultOf(argument),
  ]);
  const groups = new Map<string, Option[]>();
  for (const option of command.options.filter(({ hidden }) => !hidden)) {
    const heading = flagGroup(option);
    groups.set(heading, [...(groups.get(heading) ?? []), option]);
  }
  const ordered = [...groups].sort(([a], [b]) => placeOf(a) - placeOf(b));
  const options = ordered.map(([heading, each]) => {
    const title = groups.size === 1 ? [] : [`**${heading.replace(/:$/, '')}**`];
    const rows = each.map((option) => {
      const { words, fallback } = splitDefault(wordsOf(option));
      return [code(option.flags), words, fallback ?? defaultOf(option)];
    });
    return [...title, table(['flag', 'what it says', 'default'], rows)].join('\n\n');
  });
  return [
    `## ${name}`,
    `${sentence(command.description())}.`,
    ['```text', `${name} ${command.usage()}`, '```'].join('\n'),
    ...(words.length === 0 ? [] : [table(['argument', 'what it is', 'default'], words)]),
    ...options,
    ['```sh', ...examplesOf(path.join(' ')), '```'].join('\n'),
  ].join('\n\n');
}

const wordsOf = ({ description, argChoices }: Option): string =>
  argChoices === undefined ? description : `${description}: ${argChoices.map(code).join(', ')}`;

function defaultOf({
  defaultValue,
  defaultValueDescription,
}: {
  readonly defaultValue?: unknown;
  readonly defaultValueDescription?: string | undefined;
}): string {
  if (defaultValueDescription !== undefined) return defaultValueDescription;
  if (defaultValue === undefined || (Array.isArray(defaultValue) && defaultValue.length === 0))
    return '';
  return code(
    typeof defaultValue === 'string' ? JSON.stringify(defaultValue) : String(defaultValue),
  );
}
