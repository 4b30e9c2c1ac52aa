/** Genuine evidence of each vendor, when it is valid, and what it says. */
import { readFileSync } from 'node:fs';
import { type Claims, type MachineEvidence, readEvidence } from '../../src/attest/evidence.ts';

const folder = new URL('../vectors/attestation/', import.meta.url);

/** Returns Unix seconds. */
export const seconds = (date: string): number => Date.parse(date) / 1000;

export interface Genuine {
  readonly file: string;
  /** Unix seconds. */
  readonly at: number;
  /** A time after one of its documents has expired; absent if none ever does. */
  readonly late: number | undefined;
  readonly says: Pick<Claims, 'vendor' | 'isDebug' | 'status'>;
  /** How the measurement starts. */
  readonly measurement: string;
  readonly userData: string;
}

const row = (
  file: string,
  [at, late]: readonly [string, string | undefined],
  says: Genuine['says'],
  [measurement, userData]: readonly [string, string],
): Genuine => ({
  file,
  at: seconds(at),
  late: late === undefined ? undefined : seconds(late),
  says,
  measurement,
  userData,
});

export const genuine: readonly Genuine[] = [
  row(
    'amd',
    ['2026-01-01', '2050-01-01'],
    { vendor: 'amd-sev-snp', isDebug: true, status: 'UpToDate' },
    ['b07af962', '0102030405'.padEnd(128, '0')],
  ),
  row(
    'tdx',
    ['2025-06-25', '2025-08-01'],
    { vendor: 'intel-tdx', isDebug: false, status: 'UpToDate' },
    ['91eb2b44', '9a9d48e7'],
  ),
  row(
    'sgx',
    ['2025-06-25', '2025-08-01'],
    { vendor: 'intel-sgx', isDebug: false, status: 'ConfigurationAndSWHardeningNeeded' },
    ['33d8736d', '48656c6c6f2c20776f726c6421'.padEnd(128, '0')],
  ),
  row(
    'nitro',
    ['2025-01-06T17:00:00Z', '2025-01-06T19:07:06Z'],
    { vendor: 'aws-nitro', isDebug: false, status: 'UpToDate' },
    ['8bb159f2', ''],
  ),
  row(
    'nitro-debug',
    ['2021-03-05T18:00:00Z', '2021-03-05T20:01:50Z'],
    { vendor: 'aws-nitro', isDebug: true, status: 'UpToDate' },
    ['00000000', ''],
  ),
  row(
    'nvidia',
    ['2026-01-01', undefined],
    { vendor: 'nvidia-gpu', isDebug: false, status: 'UpToDate' },
    ['', '931d8dd0'],
  ),
];

/** Reads the evidence document of this name. */
export function evidenceOf(file: string): MachineEvidence {
  const read = readEvidence(readFileSync(new URL(`${file}.json`, folder), 'utf8'));
  if (!read.ok) throw new Error(`${file}: ${read.issue.message}`);
  return read.value;
}
