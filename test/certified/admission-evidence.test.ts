import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { evidenceFor, refuseAdmission } from '../../src/certified/admission.ts';
import { runIdOf } from '../../src/run/run-spec.ts';
import { sampleSpec } from '../support/run-spec.ts';
import { signerOf } from '../support/signers.ts';

const [founder, , newcomer, other] = [1, 2, 3, 4].map((number) => signerOf(number).publicKey);
const signal = new AbortController().signal;
const means = { clock: systemClock, signal };

describe('admission by work', () => {
  const spec = sampleSpec({ admission: { kind: 'work', bits: 8 } });
  const run = runIdOf(spec);
  const judge = (key: string, evidence: string, of = run) =>
    refuseAdmission(spec, of, null, { key, evidence });

  it('takes who did the work, for this run and this key alone', async () => {
    const evidence = await evidenceFor(spec, run, newcomer!, means);
    expect(judge(newcomer!, evidence)).toBeUndefined();
    expect(judge(other!, evidence)).toBe('join-without-work');
    expect(judge(newcomer!, evidence, 'cd'.repeat(32))).toBe('join-without-work');
    for (const bad of ['', `0${evidence}`, ` ${evidence}`, 'x', '9'.repeat(17)]) {
      expect(judge(newcomer!, bad)).toBe('join-without-work');
    }
  });

  it('asks nothing of founders', async () => {
    expect(await evidenceFor(spec, run, founder!, means)).toBe('');
    expect(judge(founder!, '')).toBeUndefined();
  });

  it('ends when it is told to', async () => {
    const hard = sampleSpec({ admission: { kind: 'work', bits: 22 } });
    const over = new AbortController();
    const mining = evidenceFor(hard, run, newcomer!, { clock: systemClock, signal: over.signal });
    over.abort(new Error('enough'));
    await expect(mining).rejects.toThrow('enough');
  });
});

describe('admission by stake', () => {
  const stake = { source: 'file', snapshot: 'ab'.repeat(32) };
  const spec = sampleSpec({ stake, admission: { kind: 'stake', least: '10' } });
  const stakes = new Map([
    [newcomer!, 10n],
    [other!, 9n],
  ]);
  const judge = (key: string) =>
    refuseAdmission(spec, runIdOf(spec), stakes, { key, evidence: '' });

  it('takes who has enough', () => {
    expect(judge(newcomer!)).toBeUndefined();
    expect(judge(founder!)).toBeUndefined();
    expect(judge(other!)).toBe('join-without-stake');
    expect(judge(signerOf(5).publicKey)).toBe('join-without-stake');
  });
});
