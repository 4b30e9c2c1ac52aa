import { describe, expect, it } from 'vitest';
import {
  judgeClaims,
  type MachinePolicy,
  MOST_EVIDENCE_LETTERS,
  readEvidence,
  userDataOf,
  writeEvidence,
} from '../../src/attest/evidence.ts';
import { judgeEvidence, simulateEvidence, verifyEvidence } from '../../src/attest/vendors.ts';
import { evidenceOf, genuine } from './genuine.ts';

const binding = {
  run: 'naddr1run',
  worker: '11'.repeat(32),
  sealKey: '22'.repeat(32),
  entropy: '33'.repeat(32),
};
const policy: MachinePolicy = {
  vendors: ['simulated'],
  measurements: ['aa'.repeat(48)],
  leastStatus: 'UpToDate',
};

describe('an evidence document', () => {
  it.each(genuine)('of $file is written as it was read', ({ file }) => {
    const evidence = evidenceOf(file);
    expect(readEvidence(writeEvidence(evidence))).toEqual({ ok: true, value: evidence });
  });

  it.each([
    ['', 'malformed', ''],
    ['null', 'malformed', ''],
    ['{"vendor":"acme","report":""}', 'unknown-vendor', 'vendor'],
    ['{"vendor":"aws-nitro","report":"*"}', 'malformed', 'report'],
    ['{"vendor":"aws-nitro","report":"","certificates":["*"]}', 'malformed', 'certificates'],
    [
      `{"vendor":"aws-nitro","report":"","certificates":[${Array(9).fill('""')}]}`,
      'malformed',
      'certificates',
    ],
    ['{"vendor":"aws-nitro","report":"","collateral":{"a":1}}', 'malformed', 'collateral'],
    [' '.repeat(MOST_EVIDENCE_LETTERS + 1), 'too-large', ''],
  ])('%s is refused', (text, code, at) => {
    expect(readEvidence(text)).toMatchObject({ ok: false, issue: { code, at } });
  });

  it('of ten megabytes is refused before it is read', () => {
    expect(readEvidence(' '.repeat(1e7))).toMatchObject({ issue: { code: 'too-large' } });
  });
});

describe('documents about the firmware of Intel processors', () => {
  const at = genuine.find(({ file }) => file === 'tdx')!.at;
  const evidence = evidenceOf('tdx');
  const pem = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;
  const processor = new TextDecoder('latin1').decode(evidence.report).match(pem)!;

  // each chain is genuine and ends at Intel's root;
  it.each([
    ['a processor', processor],
    ['an authority of processors', processor.slice(1)],
    ['the root', processor.slice(2)],
  ])('are refused if the key of %s signed them', async (_, chain) => {
    for (const name of ['tcb_info', 'qe_identity']) {
      const where = `${name}_issuer_chain`;
      const collateral = { ...evidence.collateral, [where]: chain.join('\n') };
      const verdict = await verifyEvidence({ ...evidence, collateral }, at);
      expect(verdict).toMatchObject({ issue: { code: 'bad-chain', at: `collateral.${where}` } });
    }
  });
});

describe('a policy', () => {
  const code = Uint8Array.from({ length: 48 }, () => 0xaa);
  const bound = async (changes: Partial<typeof binding> = {}) =>
    Buffer.from(await userDataOf({ ...binding, ...changes }), 'hex');

  it('accepts the machine that it names, bound to the joiner', async () => {
    const evidence = simulateEvidence(code, await bound());
    const userData = await userDataOf(binding);
    const verdict = await judgeEvidence(evidence, { at: 0, policy, userData });
    expect(verdict).toMatchObject({ ok: true, value: { vendor: 'simulated' } });
  });

  it.each(['run', 'worker', 'sealKey', 'entropy'] as const)(
    'refuses evidence bound to another %s',
    async (field) => {
      const evidence = simulateEvidence(code, await bound({ [field]: '44'.repeat(32) }));
      const userData = await userDataOf(binding);
      const verdict = await judgeEvidence(evidence, { at: 0, policy, userData });
      expect(verdict).toMatchObject({ issue: { code: 'user-data' } });
    },
  );

  it.each([
    ['vendor', { vendors: ['intel-tdx'] }],
    ['measurement', { measurements: ['bb'.repeat(48)] }],
  ] as const)('refuses another %s', async (field, changes) => {
    const evidence = simulateEvidence(code, await bound());
    const asked = { at: 0, policy: { ...policy, ...changes }, userData: await userDataOf(binding) };
    expect(await judgeEvidence(evidence, asked)).toMatchObject({ issue: { code: field } });
  });

  it('refuses machines in debug mode and outdated ones', async () => {
    const verdict = await verifyEvidence(evidenceOf('sgx'), genuine[2]!.at);
    if (!verdict.ok) throw new Error('not genuine');
    const claims = verdict.value;
    const open: MachinePolicy = {
      vendors: ['intel-sgx'],
      measurements: [],
      leastStatus: 'ConfigurationAndSWHardeningNeeded',
    };
    const { userData } = claims;
    expect(judgeClaims(claims, open, userData).ok).toBe(true);
    const strict = { ...open, leastStatus: 'UpToDate' } as const;
    expect(judgeClaims(claims, strict, userData)).toMatchObject({ issue: { code: 'status' } });
    const debug = judgeClaims({ ...claims, isDebug: true }, open, userData);
    expect(debug).toMatchObject({ issue: { code: 'debug' } });
  });

  it('refuses evidence that binds nothing', async () => {
    const verdict = await verifyEvidence(evidenceOf('nitro'), genuine[3]!.at);
    if (!verdict.ok) throw new Error('not genuine');
    const open = { ...policy, vendors: ['aws-nitro'], measurements: [] } as const;
    expect(judgeClaims(verdict.value, open, await userDataOf(binding))).toMatchObject({
      issue: { code: 'user-data' },
    });
  });
});
