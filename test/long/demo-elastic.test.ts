import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { ElasticDocument } from '../../demos/elastic/document.ts';
import { runProgram, temporaryFolder } from '../support/processes.ts';

/** Small enough for nine workers on two cores in a few minutes. */
const small = { width: 48, ffn: 384, layers: 2, heads: 2, context: 48, batchSize: 8 };

it('E-11: tier 0 among smaller tiers ends at most 5 % above a worker of the full model alone', async () => {
  const dir = temporaryFolder();
  const settings = join(dir, 'settings.json');
  writeFileSync(settings, JSON.stringify({ model: 'char-gpt', ...small }));
  const { code, stdout, stderr } = await runProgram([
    ...['demo', 'elastic', '--json', '--dir', join(dir, 'demo'), '--settings', settings],
    ...['--tiers', '0,1,2', '--rounds', '8', '--inner-steps', '25'],
  ]);
  expect(code, stderr).toBe(0);
  const { agreed, aboveAlone, alone, tiers }: ElasticDocument = JSON.parse(stdout);
  expect(agreed).toBe(true);
  expect(aboveAlone!).toBeLessThanOrEqual(1.05);
  expect(tiers[0]!.validationLosses.at(-1)! / alone!.validationLoss!).toBeCloseTo(aboveAlone!, 9);
  for (const { validationLosses } of tiers) {
    expect(validationLosses.at(-1)!).toBeLessThan(validationLosses[0]!);
  }
});
