/** `nostrain demo linear`, the demo of `npm test`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { decodeSafetensors } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { runProgram, temporaryFolder } from '../support/processes.ts';

interface Document {
  readonly task: string;
  readonly parameters: number;
  readonly agreed: boolean;
  readonly workers: { name: string; lossBefore: number; lossAfter: number; stateDigest: string }[];
  readonly rounds: { index: number; accepted: number; payloadBytes: number; eventBytes: number }[];
}

describe('nostrain demo linear', () => {
  it('N-04: four workers find y = 3x1 - 1.5x2 + 0.5x3 + 1 and end in one state', async () => {
    const dir = temporaryFolder();
    const { code, stdout } = await runProgram(['demo', 'linear', '--json', '--dir', dir]);
    expect(code).toBe(0);
    const document: Document = JSON.parse(stdout);
    expect(document).toMatchObject({ task: 'linear', parameters: 4, agreed: true });
    expect(document.workers.map(({ name }) => name)).toEqual(['alice', 'bob', 'carol', 'dave']);
    expect(new Set(document.workers.map(({ stateDigest }) => stateDigest)).size).toBe(1);
    for (const { lossBefore, lossAfter } of document.workers) {
      expect(lossAfter).toBeLessThanOrEqual(0.03 * lossBefore);
    }
    expect(document.rounds.every(({ accepted }) => accepted === 4)).toBe(true);
    const [round] = document.rounds;
    expect(round!.eventBytes).toBeGreaterThan(round!.payloadBytes);

    const file = decodeSafetensors(readFileSync(join(dir, 'alice', 'state.safetensors')));
    if (!file.ok) throw new Error(file.issue.message);
    const of = (name: string) => [
      ...file.value.tensors.find((tensor) => tensor.name === name)!.values,
    ];
    const found = [...of('linear.weight'), ...of('linear.bias')];
    [3, -1.5, 0.5, 1].forEach((truth, i) => {
      expect(Math.abs(found[i]! - truth)).toBeLessThanOrEqual(0.05);
    });
  });
});
