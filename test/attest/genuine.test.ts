import { describe, expect, it } from 'vitest';
import { verifyEvidence } from '../../src/attest/vendors.ts';
import { tryFlips } from './flips.ts';
import { evidenceOf, genuine, seconds } from './genuine.ts';

describe.each(genuine)('$file', ({ file, at, late, says, measurement, userData }) => {
  it('is genuine, and says what runs', async () => {
    const verdict = await verifyEvidence(evidenceOf(file), at);
    expect(verdict).toMatchObject({ ok: true, value: says });
    if (!verdict.ok) return;
    expect(verdict.value.measurement.startsWith(measurement)).toBe(true);
    expect(verdict.value.userData.startsWith(userData)).toBe(true);
  });

  it('is refused before it is valid and after it has expired', async () => {
    const early = await verifyEvidence(evidenceOf(file), seconds('2010-01-01'));
    expect(early).toMatchObject({ issue: { code: 'not-yet-valid' } });
    if (late === undefined) return;
    const verdict = await verifyEvidence(evidenceOf(file), late);
    expect(verdict).toMatchObject({ issue: { code: 'expired' } });
  });

  it('is refused with the certificates of another vendor, and cut off anywhere', async () => {
    const evidence = evidenceOf(file);
    if (evidence.certificates.length > 0) {
      const { certificates } = evidenceOf(file === 'amd' ? 'nvidia' : 'amd');
      const other = await verifyEvidence({ ...evidence, certificates }, at);
      expect(other).toMatchObject({ issue: { code: 'unknown-root' } });
    }
    for (let length = 0; length < evidence.report.length; length += 97) {
      const report = evidence.report.subarray(0, length);
      const verdict = await verifyEvidence({ ...evidence, report }, at);
      // a TDX quote ends with zeros that say nothing
      if (verdict.ok) expect([file, verdict]).toEqual(['tdx', await verifyEvidence(evidence, at)]);
    }
  });
});

it('a certificate that was verified vouches for no other with its signature', async () => {
  const [{ at }] = genuine as [(typeof genuine)[0]];
  const evidence = evidenceOf('amd');
  expect((await verifyEvidence(evidence, at)).ok).toBe(true);
  const [leaf, ...others] = evidence.certificates;
  const text = Buffer.from(leaf!).toString('latin1');
  const [from, until] = [...text.matchAll(/\d{12}Z/g)];
  expect(Number(until![0].slice(0, 2))).toBe(Number(from![0].slice(0, 2)) + 7);
  const longer = Buffer.from(leaf!);
  longer.write('40', until!.index);
  const certificates = [longer, ...others];
  const verdict = await verifyEvidence({ ...evidence, certificates }, seconds('2039-01-01'));
  expect(verdict).toMatchObject({ issue: { code: 'bad-chain', at: 'certificates.0' } });
});

it('200 evidences with one bit changed are refused, or say the same', async () => {
  const { broken, refused } = await tryFlips(0, 200);
  expect(broken).toEqual([]);
  expect(refused).toBeGreaterThan(150);
});
