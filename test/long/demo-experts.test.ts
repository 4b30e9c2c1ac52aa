/** The demo of experts per corpus, in which one group is killed for five rounds. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ExpertsDocument } from '../../demos/experts/run.ts';
import { runProgram, temporaryFolder } from '../support/processes.ts';

it('C-05 demo experts: one group goes on while the other is away, and all agree at the end', async () => {
  const { code, stdout, stderr } = await runProgram([
    ...['demo', 'experts', '--headless', '--json'],
    ...['--dir', join(temporaryFolder(), 'demo')],
  ]);
  expect(code, stderr).toBe(0);
  const { agreed, rounds, losses, bytesAgainstDense }: ExpertsDocument = JSON.parse(stdout);
  expect(agreed).toBe(true);
  // rounds without a contribution in time are void, on a busy machine
  expect(rounds).toBeGreaterThan(15);
  expect(losses.map(({ corpus, group }) => [corpus, group])).toEqual([
    ['shakespeare', 'shakespeare'],
    ['code', 'shakespeare'],
    ['shakespeare', 'code'],
    ['code', 'code'],
  ]);
  // knowing every byte as likely as every other
  for (const { merged } of losses) expect(merged).toBeLessThan(Math.log(256));
  for (const { corpus, group, specialist, merged } of losses) {
    if (corpus !== group) expect(merged).toBeLessThan(specialist);
  }
  expect(bytesAgainstDense).toBeLessThanOrEqual(0.5);
});
