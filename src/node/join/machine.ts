/** Evidence of this machine for a join: from a program of its owner, or of a simulated machine. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { MOST_EVIDENCE_LETTERS, writeEvidence } from '../../attest/evidence.ts';
import { simulateEvidence } from '../../attest/vendors.ts';
import { fromHex } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import type { MachineReport } from '../../certified/invitations.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { loadSealKeys } from '../files/keys.ts';

const run = promisify(execFile);

/** Time for the program, in milliseconds: it may ask a vendor for certificates. */
const PROGRAM_MS = 60_000;
const SIMULATED = 'simulated';
/** Bytes of a simulated measurement. */
const MEASUREMENT_BYTES = 48;

export interface MachineOptions {
  /** A program that prints an evidence document for the user data in its argument (hex), or `simulated`. */
  readonly machine?: string | undefined;
  readonly allowSimulated?: boolean | undefined;
}

/** Returns the machine of a joiner. Throws `run/simulated` if the run accepts simulated ones and the user does not. */
export async function machineFor(
  { machines }: RunSpec,
  worker: WorkerId,
  { machine, allowSimulated }: MachineOptions,
): Promise<MachineReport | undefined> {
  if (machines.vendors.length === 0) return undefined;
  if (machines.vendors.includes(SIMULATED) && !allowSimulated) {
    throw new ConfigError(
      'run/simulated',
      'the run accepts simulated machines, which prove nothing',
      {
        hint: 'add --allow-simulated for a test, or ask for a run with other machines.vendors',
        data: { at: 'machines.vendors' },
      },
    );
  }
  if (machine === undefined) {
    const vendors = machines.vendors.join(', ');
    throw new ConfigError('run/machine', `the run accepts only machines of ${vendors}`, {
      hint: 'name a program that prints evidence: --machine PROGRAM; see docs/attestation.md',
      data: { at: 'machines.vendors' },
    });
  }
  const { publicKey: sealKey } = await loadSealKeys(worker);
  if (machine !== SIMULATED) return { sealKey, evidence: (data) => printed(machine, data) };
  const [code = '00'.repeat(MEASUREMENT_BYTES)] = machines.measurements;
  const evidence = async (userData: string) =>
    writeEvidence(simulateEvidence(fromHex(code)!, fromHex(userData)!));
  return { sealKey, evidence };
}

async function printed(program: string, userData: string): Promise<string> {
  const limits = { timeout: PROGRAM_MS, maxBuffer: MOST_EVIDENCE_LETTERS };
  const result = await run(program, [userData], limits).catch((cause: unknown) => {
    throw new ConfigError('run/machine', `${program} prints no evidence: ${String(cause)}`, {
      hint: 'it must print one evidence document to stdout; see docs/attestation.md',
      cause,
    });
  });
  return result.stdout.trim();
}
