import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRelay } from 'nostrain/relay';
import { expect } from 'vitest';
import { quoteWords } from '../../../src/terminal/command-line.ts';
import { itWith, terminalMissing } from '../../support/needs.ts';
import { temporaryFolder } from '../../support/processes.ts';

const bin = fileURLToPath(new URL('../../../dist/src/cli/bin.js', import.meta.url));
const CONTROL = new RegExp(`${String.fromCharCode(27)}\\[[0-9;?]*[A-Za-z]`, 'g');

/** A command on a terminal of its own, 0 columns wide as `script` leaves it without one of its own. */
function onTerminal(words: readonly string[]) {
  const line = `exec ${quoteWords(words)}`;
  const child = spawn('/usr/bin/script', ['-qefc', line, '/dev/null'], {
    env: { ...process.env, NOSTRAIN_HOME: temporaryFolder(), NO_COLOR: '1' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let screen = '';
  const waiting: (() => void)[] = [];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text;
    for (const check of waiting) check();
  });
  const exit = new Promise<number | null>((resolve) => child.on('close', resolve));
  return {
    exit,
    type: (keys: string) => void child.stdin.write(keys),
    shows: (text: string) =>
      new Promise<void>((resolve) => {
        const check = () => void (screen.includes(text) && resolve());
        waiting.push(check);
        check();
      }),
    screen: () => screen,
  };
}

itWith(terminalMissing)(
  'Ctrl-C in the live view closes it, and leaves the line that goes on, quoted, below it',
  async () => {
    const relay = await createRelay();
    try {
      const dir = join(temporaryFolder(), "it's my run");
      mkdirSync(dir);
      const args = [
        ...['run-training', '--model', 'linear', '--run', 'alone', '--relay', relay.url],
        ...['--dir', dir, '--sync', 'strict:2', '--shard', '1/2'],
      ];
      const terminal = onTerminal([process.execPath, bin, ...args]);
      await terminal.shows('waiting for workers');
      terminal.type('\u0003');
      expect(await terminal.exit).toBe(130);
      const words = terminal.screen();
      const last = words.slice(words.lastIndexOf('stopped; everything is saved'));
      expect(last).not.toMatch(CONTROL);
      expect(last).toContain(dir);
      expect(last).toMatch(/^ {2}resume with: (?:node|npx) /m);
      expect(last.trimEnd().endsWith(quoteWords(args))).toBe(true);
      expect(words.replace(CONTROL, '')).toContain('run alone');
    } finally {
      await relay.close();
    }
  },
);
