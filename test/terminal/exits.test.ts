/**
 * Text from outside reaches a terminal, a log or an error through `safe` and nothing else: commands write by src/terminal/output.ts, runs by
 * src/terminal/reporter.ts, logs by the run folder, errors are made by src/base/errors.ts. Whoever opens another way out is named here.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NostrainError } from 'nostrain/base';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string) => readFileSync(join(root, file), 'utf8');
/** Demos that `nostrain demo` loads; the others are programs of their own. */
const loadedDemos = [
  'browser',
  'byzantine',
  'certified',
  'elastic',
  'finetune',
  'shared',
  'train',
].map((name) => `demos/${name}`);
const sources = ['src', 'relay', 'kinds', ...loadedDemos].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name)),
);

/** Files that hold a stream of the process: they hand it to a reporter, or write what `safe` made. */
const STREAMS = [
  'demos/shared/stage.ts',
  'src/python/commands/run-training/run.ts',
  'src/terminal/output.ts',
  'src/terminal/reporter.ts',
];
/** Where a reporter or a log writes, and why each is harmless: what it writes was made by one of these. */
const MADE_SAFE = /safe\(|safeLine\(|safeJson\(|renderPlain\(|lines\.map\(/;

const lines = (file: string, pattern: RegExp) =>
  read(file)
    .split('\n')
    .filter((line) => !/^\s*(\*|\/\/|\/\*)/.test(line) && pattern.test(line));

describe('ways out of the program', () => {
  it('are not the console, nor a child that writes to our terminal', () => {
    const found = sources.filter(
      (file) => lines(file, /\bconsole\.\w|stdio: ?'inherit'|'inherit'\]/).length > 0,
    );
    expect(found).toEqual([]);
  });

  it('are streams of the process in four files; elsewhere only their width, and who closed them, is asked', () => {
    const direct = /process\.(stdout|stderr)(?!\.(columns|rows|isTTY|on\())/;
    expect(sources.filter((file) => lines(file, direct).length > 0).sort()).toEqual(STREAMS);
  });

  it('write only what `safe` made', () => {
    const writes = [
      ...STREAMS.flatMap((file) => lines(file, /\b(stream|stdout|stderr)\.write\(/)),
      ...lines('src/node/files/run-folder.ts', /appendFileSync\(file/),
    ];
    expect(writes.length).toBeGreaterThanOrEqual(7);
    expect(writes.filter((line) => !MADE_SAFE.test(line))).toEqual([]);
    expect(read('src/terminal/render/plain.ts')).toMatch(/renderPlain = .*\n\s*safeLine\(/);
  });

  it('render the live view of text that was made safe where it is put together', () => {
    const shown = lines(
      'src/terminal/render/live.ts',
      /\$\{[^}]*\b(message|sample|title|folder)\b|= .*\b(message|sample|title)\b.*[`)]/,
    );
    const unsafe = shown.filter((line) => !/safe\(|safeLine\(/.test(line) && /\$\{/.test(line));
    expect(unsafe).toEqual([]);
  });

  it('make errors harmless, of every kind there is', () => {
    const classes = lines('src/base/errors.ts', /^export class \w+ extends/);
    expect(classes.filter((line) => !/extends (Nostrain)?Error \{/.test(line))).toEqual([]);
    const others = sources.filter(
      (file) =>
        file !== 'src/base/errors.ts' && lines(file, /class \w+ extends Error\b/).length > 0,
    );
    // the last one says one word, the others are caught in their files
    expect(others.sort()).toEqual([
      'src/browser/base-files.ts',
      'src/formats/torch-file.ts',
      'src/terminal/interrupt.ts',
    ]);
    expect(new NostrainError('a/b', '\u001b[2J').message).toBe('·[2J');
  });
});
