/** `nostrain demo linear` with the data of the reference, and without a relay. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runProgram, temporaryFolder } from '../support/processes.ts';

describe('nostrain demo linear', () => {
  it("--reference: the reference's data and settings give its result", async () => {
    const { code, stdout } = await runProgram([
      ...['demo', 'linear', '--reference', '--json', '--dir', temporaryFolder()],
    ]);
    expect(code).toBe(0);
    const document = JSON.parse(stdout);
    expect(document).toMatchObject({ agreed: true, parameters: 4 });
    // docs of the reference and a run of it: w = [2.770, -1.450, 0.528], b = 1.079
    const { weights, bias } = document.found;
    expect([...weights, bias].map((value: number) => value.toFixed(3))).toEqual([
      ...['2.770', '-1.450', '0.528', '1.079'],
    ]);
    expect(
      document.workers.map(({ lossAfter }: { lossAfter: number }) => lossAfter.toFixed(3)),
    ).toEqual([...['0.168', '0.145', '0.110', '0.160']]);
    expect(document.found.leastSquaresToTruth).toBeCloseTo(0.0675, 3);
    expect(document.found.errorToTruth).toBeCloseTo(0.23, 2);
  });

  it('prints plain lines off a terminal and exits 1 when the relay cannot be reached', async () => {
    const settings = join(temporaryFolder(), 'settings.json');
    writeFileSync(settings, JSON.stringify({ joinTimeout: 0.1 }));
    const args = ['demo', 'linear', '--quick', '--workers', '2', '--relay', 'ws://127.0.0.1:9'];
    const more = ['--settings', settings, '--dir', temporaryFolder()];
    const { code, stdout } = await runProgram([...args, ...more]);
    expect(code).toBe(1);
    expect(stdout).toContain('relay/none-reachable');
    expect(stdout).toContain('ws://127.0.0.1:9');
  });
});
