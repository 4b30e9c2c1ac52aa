/** Runs a demo from the command line as a user does, and checks that it succeeded. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunEvent } from 'nostrain/certified';
import { expect } from 'vitest';
import type { DemoDocument } from '../../demos/shared/document.ts';
import { startProgram, temporaryFolder } from './processes.ts';

export interface DemoRun {
  readonly document: DemoDocument;
  /** What a person saw. */
  readonly told: string;
  /** The rounds of all workers, from their logs. */
  readonly rounds: readonly Extract<RunEvent, { type: 'round' }>[];
}

/** Starts a demo over these relays. Resolves once it succeeded: exit code 0, and each worker counted once by all. */
export function startDemo(
  name: 'linear' | 'gpt' | 'finetune',
  relays: readonly string[],
  more: readonly string[] = [],
): Promise<DemoRun> {
  const dir = temporaryFolder();
  const urls = relays.flatMap((url) => ['--relay', url]);
  const program = startProgram(['demo', name, '--json', '--dir', dir, ...urls, ...more]);
  return program.exit.then((code) => {
    const { stdout, stderr } = program.output;
    expect(code, stderr.slice(-4000)).toBe(0);
    const document: DemoDocument = JSON.parse(stdout);
    const rounds = document.workers.flatMap((worker) => roundsIn(join(dir, worker.name)));
    expectWhole(document, rounds);
    return { document, told: stderr, rounds };
  });
}

function roundsIn(folder: string): DemoRun['rounds'] {
  const lines = readFileSync(join(folder, 'log.ndjson'), 'utf8').trim().split('\n');
  return lines.map((line): RunEvent => JSON.parse(line)).filter((event) => event.type === 'round');
}

/** No contribution is lost or counted twice, and all workers agree. */
function expectWhole(document: DemoDocument, rounds: DemoRun['rounds']): void {
  expect(document.agreed).toBe(true);
  const everyone = document.workers.map(({ pubkey }) => pubkey).toSorted();
  expect(new Set(everyone).size).toBe(document.workers.length);
  expect(rounds).toHaveLength(document.rounds.length * everyone.length);
  for (const { accepted } of rounds) expect(accepted).toEqual(everyone);
  expect(document.rounds.every(({ accepted }) => accepted === everyone.length)).toBe(true);
  expect(new Set(document.workers.map(({ stateDigest }) => stateDigest)).size).toBe(1);
  for (const { lossBefore, lossAfter } of document.workers) {
    expect(lossAfter!).toBeLessThan(lossBefore!);
  }
}
