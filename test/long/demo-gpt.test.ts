import { describe, expect, it } from 'vitest';
import { runProgram, temporaryFolder } from '../support/processes.ts';

interface Document {
  readonly parameters: number;
  readonly corpus: { readonly name: string; readonly sha256: string; readonly bytes: number };
  readonly agreed: boolean;
  readonly workers: { lossBefore: number; lossAfter: number; stateDigest: string }[];
  readonly rounds: {
    validationLoss: number;
    accepted: number;
    payloadBytes: number;
    eventBytes: number;
    sample: string;
  }[];
}

const mean = (values: readonly number[]) =>
  values.reduce((sum, value) => sum + value, 0) / values.length;
const TINY_SHAKESPEARE = '86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed';

describe('nostrain demo gpt', () => {
  it('N-05: four workers, a quarter of the text each, learn to write and hold the same bits', async () => {
    const given = process.env.NOSTRAIN_TEST_CORPUS;
    const corpus = given === undefined ? [] : ['--corpus', given];
    const args = ['demo', 'gpt', '--json', '--dir', temporaryFolder(), ...corpus];
    const { code, stdout } = await runProgram(args);
    expect(code).toBe(0);
    const document: Document = JSON.parse(stdout);
    expect(document.parameters).toBe(834_048);
    expect(document.agreed).toBe(true);
    expect(new Set(document.workers.map(({ stateDigest }) => stateDigest)).size).toBe(1);
    expect(mean(document.workers.map(({ lossBefore }) => lossBefore))).toBeGreaterThanOrEqual(4.2);
    expect(mean(document.workers.map(({ lossAfter }) => lossAfter))).toBeLessThanOrEqual(2.6);
    expect(document.rounds).toHaveLength(5);
    for (const { accepted, sample, payloadBytes, eventBytes } of document.rounds) {
      expect(accepted).toBe(4);
      expect(sample.length).toBeGreaterThan(50);
      expect(eventBytes).toBeGreaterThan(payloadBytes);
    }
    if (document.corpus.sha256 === TINY_SHAKESPEARE) {
      expect(document.rounds.at(-1)!.validationLoss).toBeLessThanOrEqual(2.05);
    }
  });
});
