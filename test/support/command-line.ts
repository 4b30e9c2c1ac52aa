/** Runs the command line in this process and catches what it prints. */
import { vi } from 'vitest';
import { main } from '../../src/cli/main.ts';

export interface Printed {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Lines that appear only on a machine on which the command takes longer than two seconds. */
const PROGRESS = /^.*(?:: \d+ s so far|: \d+ %|, loss [\d.]+ so far)\n/gm;

export async function runCommand(...argv: readonly string[]): Promise<Printed> {
  const printed = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      printed[name] += text;
      return true;
    }),
  );
  const before = process.exitCode;
  process.exitCode = undefined;
  try {
    const exitCode = await main(argv);
    return { exitCode, stdout: printed.stdout, stderr: printed.stderr.replace(PROGRESS, '') };
  } finally {
    process.exitCode = before;
    for (const spy of spies) spy.mockRestore();
  }
}
