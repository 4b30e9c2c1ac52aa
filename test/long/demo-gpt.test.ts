import { execFileSync } from 'node:child_process';
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
    const extent = ['--rounds', '5', '--inner-steps', '100'];
    const args = ['demo', 'gpt', ...extent, '--json', '--dir', temporaryFolder(), ...corpus];
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

  it('N-05: by default twenty rounds of 25 steps, better by far for as much work, and a line that writes more text', async () => {
    const given = process.env.NOSTRAIN_TEST_CORPUS;
    const corpus = given === undefined ? [] : ['--corpus', given];
    // a slow machine plans fewer rounds by itself
    const args = ['demo', 'gpt', '--rounds', '20', '--json', '--dir', temporaryFolder(), ...corpus];
    const { code, stdout, stderr } = await runProgram(args);
    expect(code).toBe(0);
    const document: Document = JSON.parse(stdout);
    expect(document.parameters).toBe(834_048);
    expect(document.agreed).toBe(true);
    expect(document.rounds).toHaveLength(20);
    for (const { accepted, eventBytes } of document.rounds) {
      expect(accepted).toBe(4);
      expect(eventBytes).toBeLessThanOrEqual(65_536);
    }
    if (document.corpus.sha256 === TINY_SHAKESPEARE) {
      // half way there, and below where five long rounds end
      expect(document.rounds[6]!.validationLoss).toBeLessThanOrEqual(2.05);
      expect(document.rounds.at(-1)!.validationLoss).toBeLessThanOrEqual(1.66);
    }
    const line = /write more text with: (.*)/.exec(stderr)![1]!;
    const text = execFileSync('/bin/sh', ['-c', line], { encoding: 'utf8' });
    expect(text.length).toBeGreaterThan(300);
  });
});
