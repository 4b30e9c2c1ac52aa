import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runCommand } from '../support/command-line.ts';

const evidence = (name: string) =>
  fileURLToPath(new URL(`../vectors/attestation/${name}.json`, import.meta.url));

describe('attest', () => {
  it('shows what evidence says at a time', async () => {
    const shown = await runCommand('attest', 'inspect', evidence('sgx'), '--at', '2025-06-25');
    expect(shown.exitCode).toBe(0);
    expect(shown.stdout).toMatch(/measurement +33d8736d/);
    expect(shown.stdout).toContain('ConfigurationAndSWHardeningNeeded');
  });

  it('refuses evidence that has expired', async () => {
    const shown = await runCommand('attest', 'inspect', evidence('tdx'), '--at', '2026-06-25');
    expect(shown.exitCode).toBe(1);
    expect(shown.stderr).toContain('the revocation list is not current');
  });

  it.each([
    ['tdx', ['--at', '2025-06-25'], { ok: true, claims: { vendor: 'intel-tdx' } }],
    [
      'tdx',
      ['--at', '2025-06-25', '--vendor', 'aws-nitro'],
      { ok: false, issue: { code: 'vendor' } },
    ],
    [
      'tdx',
      ['--at', '2025-06-25', '--measurement', '00'],
      { ok: false, issue: { code: 'measurement' } },
    ],
    [
      'tdx',
      ['--at', '2025-06-25', '--user-data', '00'],
      { ok: false, issue: { code: 'user-data' } },
    ],
    ['sgx', ['--at', '2025-06-25'], { ok: false, issue: { code: 'status' } }],
    ['amd', ['--at', '2026-01-01'], { ok: false, issue: { code: 'debug' } }],
  ])('verifies %s %j', async (name, flags, expected) => {
    const verdict = await runCommand('attest', 'verify', evidence(name), ...flags, '--json');
    expect(JSON.parse(verdict.stdout)).toMatchObject(expected);
    expect(verdict.exitCode).toBe(expected.ok ? 0 : 1);
  });

  it('says what is wrong with a file and a time', async () => {
    const none = await runCommand('attest', 'inspect', evidence('none'));
    expect(none.stderr).toContain('cannot read');
    const late = await runCommand('attest', 'inspect', evidence('sgx'), '--at', 'late');
    expect(late).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('"late"') });
  });
});
