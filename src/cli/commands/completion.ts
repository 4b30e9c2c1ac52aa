/** `nostrain completion bash|zsh|fish`: prints a script that completes commands, flags and choices in the shell. */
import { Argument, Command, type Option } from 'commander';
import { SWITCH } from '../../run/field.ts';
import { setOptionsOf, wordsOf } from '../../terminal/options.ts';
import { writeOut } from '../../terminal/output.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

/** One command with the words that can follow it: its subcommands, flags, and the choices of arguments. */
interface Node {
  /** Path such as `run join`; empty for the program. */
  readonly path: string;
  readonly commands: readonly Word[];
  readonly flags: readonly Flag[];
  readonly choices: readonly string[];
}

interface Word {
  readonly word: string;
  readonly description: string;
}

interface Flag extends Word {
  /** Type of its value, if it takes one. */
  readonly value: 'none' | 'file' | 'other';
  readonly choices: readonly string[];
}

/** Creates the command; `programOf` returns the whole program, loaded only when the command runs. */
export const completion = (programOf: () => Promise<Command>): Command =>
  new Command('completion')
    .description('print a script that completes commands and flags in your shell')
    .addArgument(new Argument('<shell>', 'shell to complete in').choices(SHELLS))
    .addHelpText(
      'after',
      '\nWhere to save the script:\n  bash  ' +
        '~/.local/share/bash-completion/completions/nostrain\n',
    )
    .action(async (shell: Shell) => writeOut(scripts[shell](nodesOf(await programOf(), ''))));

function nodesOf(command: Command, path: string): readonly Node[] {
  const node = {
    path,
    commands: command.commands.map((each) => ({
      word: each.name(),
      description: firstClause(each.description()),
    })),
    flags: command.options.filter(({ hidden }) => !hidden).map((each) => flagOf(each, command)),
    choices: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
  };
  const below = command.commands.flatMap((each) =>
    nodesOf(each, path === '' ? each.name() : `${path} ${each.name()}`),
  );
  return [node, ...below];
}

const flagOf = (option: Option, command: Command): Flag => ({
  word: option.long ?? option.short ?? '',
  description: firstClause(option.description),
  value: FILE.test(option.flags) ? 'file' : option.required || option.optional ? 'other' : 'none',
  choices:
    option.long === '--set'
      ? assignmentsOf(command)
      : (option.argChoices ?? wordsOf(option) ?? choicesIn(option.description)),
});

/** Returns what `--set` takes: `owners=`, or `packing=int8` for a choice. */
const assignmentsOf = (command: Command): readonly string[] =>
  [...setOptionsOf(command)].flatMap(([name, { words = [], accepted }]) => {
    const values = accepted === SWITCH ? ['true', 'false'] : words;
    return values.length === 0 ? [`${name}=`] : values.map((value) => `${name}=${value}`);
  });

const FILE = /<(?:file|dir|folder)>/;

/** Returns `auto, int8` from `how to pack deltas (auto, int8) (default: auto)`. */
const choicesIn = (text: string): readonly string[] =>
  /\(([\w/.-]+(?:, [\w/.-]+)+)\)(?: \(default: [^()]*\))?$/.exec(text)?.[1]?.split(', ') ?? [];

/** Returns the text up to the first bracket, colon or semicolon: shells show one line. */
const firstClause = (text: string): string => text.split(/[;:(]/)[0]!.trim();

/** Returns the text in single quotes, for any of the three shells. */
const quoted = (text: string): string => `'${text.replaceAll("'", '').replaceAll('\\', '')}'`;

const words = (of: readonly Word[]): string => of.map(({ word }) => word).join(' ');

/** Returns the shell cases that set `commands`, `flags` and `values` by path. */
const bashCases = (nodes: readonly Node[]): readonly string[] =>
  nodes.flatMap(({ path, commands, flags, choices }) => [
    `    ${quoted(path)})`,
    `      commands=${quoted([words(commands), ...choices].join(' ').trim())}`,
    `      flags=${quoted(`${words(flags)} --help`.trim())}`,
    ...valueCases(flags),
    '      ;;',
  ]);

/** Returns the shell cases for the value of the preceding flag. */
function valueCases(flags: readonly Flag[]): readonly string[] {
  const listed = flags.filter(({ choices }) => choices.length > 0);
  const lines = listed.map(
    ({ word, choices }) => `        ${word}) values=${quoted(choices.join(' '))} ;;`,
  );
  for (const kind of ['file', 'other'] as const) {
    const some = flags.filter(({ value, choices }) => value === kind && choices.length === 0);
    const names = some.map(({ word }) => word).join('|');
    if (some.length > 0) lines.push(`        ${names}) takes=${kind} ;;`);
  }
  return lines.length === 0 ? [] : ['      case "$before" in', ...lines, '      esac'];
}

const bash = (nodes: readonly Node[]): string => `# completes nostrain in bash
_nostrain() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]}
  local path='' commands='' flags='' values='' takes='' key='' each next
  # bash cuts words at =
  if [ "$word" = = ]; then word='' key=$before before=\${COMP_WORDS[COMP_CWORD-2]}
  elif [ "$before" = = ]; then key=\${COMP_WORDS[COMP_CWORD-2]} before=\${COMP_WORDS[COMP_CWORD-3]}
  fi
  for each in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="\${path:+$path }$each"
    case "$next" in
      ${nodes
        .filter(({ path }) => path !== '')
        .map(({ path }) => quoted(path))
        .join('|')}) path=$next ;;
    esac
  done
  case "$path" in
${bashCases(nodes).join('\n')}
  esac
  if [ "$before" = --set ] && [ -n "$key" ]; then
    values=$(printf '%s\\n' $values | sed -n "s/^$key=//p") takes=other
  elif [ "$before" = --set ]; then
    values=$(printf '%s\\n' $values | sed 's/=.*/=/' | sort -u)
    compopt -o nospace 2>/dev/null
  fi
  if [ -n "$values" ]; then COMPREPLY=($(compgen -W "$values" -- "$word"))
  elif [ "$takes" = other ]; then COMPREPLY=()
  elif [ "$takes" = file ]; then COMPREPLY=($(compgen -f -- "$word"))
  elif [ "\${word#-}" != "$word" ]; then COMPREPLY=($(compgen -W "$flags" -- "$word"))
  elif [ -n "$commands" ]; then COMPREPLY=($(compgen -W "$commands" -- "$word"))
  else COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _nostrain nostrain
`;

/** Zsh runs completions written for bash. */
const zsh = (nodes: readonly Node[]): string => `#compdef nostrain
autoload -U +X bashcompinit && bashcompinit
${bash(nodes)}`;

const fish = (nodes: readonly Node[]): string =>
  `${['# completes nostrain in fish', ...nodes.flatMap(fishLines)].join('\n')}\n`;

/** Returns the fish condition for a command line that names this path and none of its subcommands. */
function fishCondition({ path, commands }: Node): string {
  if (path === '') return '__fish_use_subcommand';
  const seen = path.split(' ').map((each) => `__fish_seen_subcommand_from ${each}`);
  const below = commands.length === 0 ? [] : [`not __fish_seen_subcommand_from ${words(commands)}`];
  return [...seen, ...below].join('; and ');
}

function fishLines(node: Node): readonly string[] {
  const { commands, choices, flags } = node;
  const line = `complete -c nostrain -n ${quoted(fishCondition(node))}`;
  return [
    ...commands.map(({ word, description }) => `${line} -f -a ${word} -d ${quoted(description)}`),
    ...(choices.length === 0 ? [] : [`${line} -f -a ${quoted(choices.join(' '))}`]),
    ...flags.map(({ word, description, value, choices: known }) =>
      [
        `${line} -l ${word.replace(/^-+/, '')} -d ${quoted(description)}`,
        ...(known.length > 0 ? [`-x -a ${quoted(known.join(' '))}`] : FISH[value]),
      ].join(' '),
    ),
  ];
}

const FISH = { none: [], file: ['-r'], other: ['-x'] } as const;

const scripts = { bash, zsh, fish } satisfies Record<Shell, (nodes: readonly Node[]) => string>;
