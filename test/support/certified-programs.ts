/** Starts workers of certified runs as processes of the built program. */

import { toHex } from 'nostrain/base';
import type { Relay } from 'nostrain/relay';
import { type Program, runProgram, startProgram } from './processes.ts';

/** Returns the flags that pass the key of test signer `number`. */
export const keyFlags = (number: number): readonly string[] => [
  '--sec-key',
  toHex(new Uint8Array(32).fill(number)),
];

/** What a worker that ends by itself says last. */
export async function endOf(program: Program) {
  const done = await program.event(({ type }) => type === 'done');
  if (done.type !== 'done') throw new Error('not done');
  await program.exit;
  return done;
}

/** Commands of runs on one relay, whose workers learn from one text. */
export function programsOn(relay: () => Relay, corpus: string) {
  const programs: Program[] = [];
  return {
    joinRun(number: number, file: string, ...flags: readonly string[]): Program {
      const program = startProgram([
        ...['run', 'join', file, '--relay', relay().url, '--report', 'ndjson', '--device', 'cpu'],
        ...['--corpus', corpus, ...keyFlags(number), ...flags],
      ]);
      programs.push(program);
      return program;
    },
    replay: (file: string, ...flags: readonly string[]) =>
      runProgram(['replay', '--spec', file, '--relay', relay().url, ...flags]),
    killAll(): void {
      for (const { child } of programs.splice(0)) child.kill('SIGKILL');
    },
  };
}
