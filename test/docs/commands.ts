/** docs/reference/commands.md: every command with its arguments and flags, from the command tree itself. */
import type { Command, Option } from 'commander';
import { createProgram } from '../../src/cli/main.ts';
import { code, table } from './markdown.ts';

const MAIN = 'Options';

export async function renderCommands(): Promise<string> {
  const program = await createProgram();
  const all = program.commands.flatMap((command) => leavesOf(command, []));
  const contents = program.commands
    .filter((command) => !isHidden(command))
    .map((command) => [
      `[${code(command.name())}](#${anchor(`nostrain ${leavesOf(command, [])[0]!.path.join(' ')}`)})`,
      sentence(command.description()),
    ]);
  return [
    '# Commands',
    'Every command with its arguments and flags, as `--help` tells them. `nostrain COMMAND --help` prints the same.',
    table(['command', 'what it does'], contents),
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
    const heading = option.helpGroupHeading ?? MAIN;
    groups.set(heading, [...(groups.get(heading) ?? []), option]);
  }
  const options = [...groups].map(([heading, each]) => {
    const title = groups.size === 1 ? [] : [`**${heading.replace(/:$/, '')}**`];
    const rows = each.map((option) => [code(option.flags), wordsOf(option), defaultOf(option)]);
    return [...title, table(['flag', 'what it says', 'default'], rows)].join('\n\n');
  });
  return [
    `## ${name}`,
    `${sentence(command.description())}.`,
    ['```text', `${name} ${command.usage()}`, '```'].join('\n'),
    ...(words.length === 0 ? [] : [table(['argument', 'what it is', 'default'], words)]),
    ...options,
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
