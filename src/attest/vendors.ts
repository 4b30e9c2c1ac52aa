/** Verifiers of machines, one per vendor, and the judgement of a joiner's evidence. */
import { toHex, utf8 } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { sha256 } from '../base/hash.ts';
import { verifyAmd } from './amd.ts';
import {
  type Claims,
  judgeClaims,
  type MachineEvidence,
  type MachinePolicy,
  type VendorName,
  type Verifier,
} from './evidence.ts';
import { verifySgx, verifyTdx } from './intel.ts';
import { verifyNitro } from './nitro.ts';
import { verifyNvidia } from './nvidia.ts';

const MEASUREMENT_BYTES = 48;
const USER_DATA_BYTES = 64;
const CHECK = utf8('simulated machine');

/**
 * Makes evidence of a simulated machine that runs code with this measurement (48 bytes) and binds this user data (64
 * bytes). It proves nothing, since anybody can make it: for tests and demos.
 */
export function simulateEvidence(measurement: Uint8Array, userData: Uint8Array): MachineEvidence {
  const statement = Uint8Array.from([...measurement, ...userData]);
  const check = sha256(Uint8Array.from([...CHECK, ...statement]));
  const report = Uint8Array.from([...statement, ...check]);
  return { vendor: 'simulated', report, certificates: [], collateral: {} };
}

const verifySimulated: Verifier = ({ report }) => {
  const size = MEASUREMENT_BYTES + USER_DATA_BYTES;
  const statement = report.subarray(0, size);
  const check = sha256(Uint8Array.from([...CHECK, ...statement]));
  if (toHex(report.subarray(size)) !== toHex(check)) {
    return refuse('bad-signature', 'report', 'the report of the simulated machine is damaged');
  }
  return ok({
    vendor: 'simulated',
    measurement: toHex(statement.subarray(0, MEASUREMENT_BYTES)),
    measurements: {},
    userData: toHex(statement.subarray(MEASUREMENT_BYTES)),
    isDebug: false,
    status: 'UpToDate',
  });
};

const verifiers: Readonly<Record<VendorName, Verifier>> = {
  'amd-sev-snp': verifyAmd,
  'intel-tdx': verifyTdx,
  'intel-sgx': verifySgx,
  'aws-nitro': verifyNitro,
  'nvidia-gpu': verifyNvidia,
  simulated: verifySimulated,
};

/** Checks evidence at a time (Unix seconds): signatures, certificates and versions. */
export const verifyEvidence = (evidence: MachineEvidence, at: number): Result<Claims> =>
  verifiers[evidence.vendor](evidence, at);

/** Checks evidence, and what it says against the policy of a run and the user data that the joiner must have bound. */
export function judgeEvidence(
  evidence: MachineEvidence,
  { at, policy, userData }: { at: number; policy: MachinePolicy; userData: string },
): Result<Claims> {
  if (!policy.vendors.includes(evidence.vendor)) {
    const accepted = policy.vendors.join(', ');
    return refuse('vendor', 'vendor', `the run accepts ${accepted}, not ${evidence.vendor}`);
  }
  const verified = verifyEvidence(evidence, at);
  return verified.ok ? judgeClaims(verified.value, policy, userData) : verified;
}
