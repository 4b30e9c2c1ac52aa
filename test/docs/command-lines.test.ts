/** Command lines on every page are of commands and flags that there are. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { createProgram } from '../../src/cli/main.ts';
import { isReplaced, setOptionsOf } from '../../src/terminal/options.ts';

const root = join(import.meta.dirname, '../..');
const pages = [
  ...['README.md', 'CONTRIBUTING.md', 'demos/gpt/README.md', 'demos/linear/README.md'],
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
const program = await createProgram();

/** What follows `nostrain` in blocks and in running text, up to a comment or the next command. */
const lines = pages.flatMap((page) => {
  const text = readFileSync(join(root, page), 'utf8').replace(/\\\n\s*/g, ' ');
  const blocks = [...text.matchAll(/^```\w*\n(.*?)^```/gms)].flatMap(([, block]) =>
    block!.split('\n'),
  );
  const inline = [...text.replace(/^```.*?^```/gms, '').matchAll(/`([^`\n]+)`/g)].map(
    ([, code]) => code!,
  );
  return (
    [...blocks, ...inline]
      .flatMap((line) => line.split(/&&|;|\|/))
      .map((line) => /^\s*nostrain (.+)/.exec(line)?.[1]?.replace(/\s#.*$/, ''))
      // `nostrain link 1` begins a statement that an account signs
      .filter((line): line is string => line !== undefined && line !== 'link 1')
      .map((line) => ({ page, line }))
  );
});

/** The command that the words name, or why there is none. */
function commandOf(words: readonly string[]): Command | string {
  let command: Command = program;
  for (const word of words) {
    const next: Command | undefined = command.commands.find((each) => each.name() === word);
    if (next === undefined) break;
    command = next;
  }
  const isWhole = command !== program && command.commands.length === 0;
  const names = words.filter((word) => /^[a-z][a-z-]*$/.test(word));
  // `nostrain run` and `nostrain witness` may be spoken of as such
  return isWhole || names.length < 2 ? command : `no command ${words.join(' ')}`;
}

function problemOf(line: string): string | undefined {
  const words = line.trim().split(/\s+/);
  if (words[0]!.startsWith('-') || !/^[a-z]/.test(words[0]!)) return undefined;
  const command = commandOf(words);
  if (typeof command === 'string') return command;
  if (command === program) return `no command ${words[0]}`;
  const flags = words.flatMap((word) => /^--[a-z-]+/.exec(word)?.[0] ?? []);
  const names = [...line.matchAll(/--set ([\w.]+)/g)].map(([, name]) => name!);
  const other = names.filter((name) => !setOptionsOf(command).has(name));
  if (other.length > 0) return `no --set ${other.join(' ')} of ${command.name()}`;
  const known = [
    '--help',
    ...command.options
      .filter((option) => !isReplaced(option))
      .flatMap(({ long, short }) => [long, short]),
  ];
  const unknown = flags.filter((flag) => !known.includes(flag));
  return unknown.length === 0 ? undefined : `no ${unknown.join(' ')} of ${command.name()}`;
}

describe('N-22: command lines on pages', () => {
  it('are found', () => {
    expect(lines.length).toBeGreaterThan(60);
  });

  it.each(pages)('%s', (page) => {
    const wrong = lines
      .filter((each) => each.page === page)
      .flatMap(({ line }) => problemOf(line) ?? []);
    expect(wrong).toEqual([]);
  });
});
