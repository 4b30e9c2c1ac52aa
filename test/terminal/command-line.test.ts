import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { commandLine, quoteWords } from '../../src/terminal/command-line.ts';
import { itWith, shellMissing } from '../support/needs.ts';

describe('a POSIX shell', () => {
  const quote = (words: readonly string[]) => quoteWords(words, 'linux');

  it('gets bare words where it can and quotes where it must', () => {
    expect(quote(['run', 'join', '--relay', 'ws://127.0.0.1:7777', '--sync', 'strict:3'])).toBe(
      'run join --relay ws://127.0.0.1:7777 --sync strict:3',
    );
    expect(quote(['--dir', '/my runs/a', "it's", '', '$HOME', '*', '~x'])).toBe(
      "--dir '/my runs/a' 'it'\\''s' '' '$HOME' '*' '~x'",
    );
  });

  itWith(shellMissing)('reads the same words back', async () => {
    const word = fc.string({ unit: fc.constantFrom(...'ab \'"\\$`!*?~#&;|<>(){}[]\n\té…') });
    const lists = fc.sample(fc.array(word, { minLength: 1, maxLength: 5 }), 200);
    // one shell reads them all: none of the words holds the byte between two lists
    const script = lists
      .map((words) => `printf '%s\\0' ${quote(words)}; printf '\\001'`)
      .join('\n');
    const read = execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' });
    const readLists = read.split('\u0001').slice(0, -1);
    expect(readLists.map((words) => words.split('\0').slice(0, -1))).toEqual(lists);
  });
});

describe('cmd.exe', () => {
  const quote = (words: readonly string[]) => quoteWords(words, 'win32');

  it('gets double quotes, and backslashes as Windows programs read them', () => {
    expect(quote(['--dir', 'C:\\runs\\a'])).toBe('--dir C:\\runs\\a');
    expect(quote(['C:\\my runs\\', 'say "hi"', 'a\\"b', '', 'a&b'])).toBe(
      '"C:\\my runs\\\\" "say \\"hi\\"" "a\\\\\\"b" "" "a&b"',
    );
  });
});

it('names the program as it was started where the shell does not know it', () => {
  expect(commandLine(['sample', 'a b'])).toMatch(/^node .* sample ['"]a b['"]$/s);
});
