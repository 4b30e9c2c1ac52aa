/** Runs the command line in this process and catches what it prints. */
import { vi } from 'vitest';
import { main } from '../../src/cli/main.ts';

export interface Printed {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

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
    return { exitCode: await main(argv), ...printed };
  } finally {
    process.exitCode = before;
    for (const spy of spies) spy.mockRestore();
  }
}
