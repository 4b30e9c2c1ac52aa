/** Starts the built program as a user does: one child process per command, with its output captured. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { RunEvent } from 'nostrain/certified';

const bin = fileURLToPath(new URL('../../dist/src/cli/bin.js', import.meta.url));

export const temporaryFolder = (): string => mkdtempSync(join(tmpdir(), 'nostrain-test-'));

export interface Program {
  readonly child: ChildProcess;
  readonly events: RunEvent[];
  readonly output: { stdout: string; stderr: string };
  readonly exit: Promise<number | null>;
  /** Resolves with the first event, past or future, that passes. */
  event(test: (event: RunEvent) => boolean): Promise<RunEvent>;
}

/** Starts `nostrain …`; NDJSON lines on stdout are read as events. */
export function startProgram(
  args: readonly string[],
  home = temporaryFolder(),
  cwd = process.cwd(),
  environment: NodeJS.ProcessEnv = {},
): Program {
  const child = spawn(process.execPath, [bin, ...args], {
    cwd,
    env: { ...process.env, NOSTRAIN_HOME: home, NO_COLOR: '1', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  const events: RunEvent[] = [];
  const waiting = new Set<() => void>();
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output.stderr += text;
  });
  createInterface({ input: child.stdout }).on('line', (line) => {
    output.stdout += `${line}\n`;
    if (!line.startsWith('{"type":')) return;
    events.push(JSON.parse(line));
    for (const check of [...waiting]) check();
  });
  const exit = new Promise<number | null>((resolve) => child.on('close', resolve));
  return {
    child,
    events,
    output,
    exit,
    event: (test) =>
      new Promise((resolve, reject) => {
        const check = () => {
          const found = events.find(test);
          if (!found) return;
          waiting.delete(check);
          resolve(found);
        };
        waiting.add(check);
        check();
        void exit.then((code) => reject(new Error(`ended with ${code}: ${output.stderr}`)));
      }),
  };
}

/** Resolves when the program has printed this on stderr, with the match. */
export async function printed({ output, exit }: Program, words: RegExp): Promise<string> {
  let isOver = false;
  void exit.then(() => {
    isOver = true;
  });
  for (;;) {
    const match = words.exec(output.stderr)?.[0];
    if (match !== undefined) return match;
    if (isOver) throw new Error(`ended without ${words}: ${output.stderr}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Runs a command until it exits. */
export async function runProgram(args: readonly string[], home?: string, cwd?: string) {
  const { exit, output } = startProgram(args, home, cwd);
  return { code: await exit, ...output };
}
