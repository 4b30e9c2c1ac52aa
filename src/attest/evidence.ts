/**
 * Evidence of a machine that proves what it runs: its document, what a verifier finds in it, and the policy of a run.
 */
import { sha512 } from '@noble/hashes/sha2.js';
import { fromBase64, fromHex, toBase64, toHex, utf8 } from '../base/bytes.ts';
import { jsonIn } from '../base/canonical-json.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { isObject, isText, listOf } from '../base/shape.ts';

export const vendorNames = [
  'amd-sev-snp',
  'intel-tdx',
  'intel-sgx',
  'aws-nitro',
  'nvidia-gpu',
  'simulated',
] as const;
export type VendorName = (typeof vendorNames)[number];

/** What a machine hands out, as it travels: nothing of it is trusted. */
export interface MachineEvidence {
  readonly vendor: VendorName;
  /** The signed report, quote or attestation document. */
  readonly report: Uint8Array;
  /** Certificates in DER, leaf first, where the report does not contain them. */
  readonly certificates: readonly Uint8Array[];
  /** Further documents by name, for example Intel's TCB info. */
  readonly collateral: Readonly<Record<string, string>>;
}

/** From best to worst. */
export const tcbStatuses = [
  'UpToDate',
  'SWHardeningNeeded',
  'ConfigurationNeeded',
  'ConfigurationAndSWHardeningNeeded',
  'OutOfDate',
  'OutOfDateConfigurationNeeded',
  'Revoked',
] as const;
export type TcbStatus = (typeof tcbStatuses)[number];

/** What genuine evidence says. */
export interface Claims {
  readonly vendor: VendorName;
  /** Hex digest of the machine's code: launch measurement, MRTD, MRENCLAVE, PCR 0 to 2; GPUs leave it empty. */
  readonly measurement: string;
  /** Further measurements by name, hex. */
  readonly measurements: Readonly<Record<string, string>>;
  /** What the machine bound into its report, hex: usually 64 bytes. */
  readonly userData: string;
  /** Whether its owner can read the machine's memory. */
  readonly isDebug: boolean;
  readonly status: TcbStatus;
}

/** Which machines a run accepts. */
export interface MachinePolicy {
  readonly vendors: readonly VendorName[];
  /** Accepted measurements, hex; empty: any. */
  readonly measurements: readonly string[];
  readonly leastStatus: TcbStatus;
}

/** Checks evidence of one vendor at a time in Unix seconds: pure, synchronous, never throws. */
export type Verifier = (evidence: MachineEvidence, at: number) => Result<Claims>;

/** Largest evidence document, in characters; genuine ones have 5,000 to 40,000. */
export const MOST_EVIDENCE_LETTERS = 128 * 1024;
const MOST_CERTIFICATES = 8;
const MOST_DOCUMENTS = 16;

/** Writes an evidence document. */
export function writeEvidence({
  vendor,
  report,
  certificates,
  collateral,
}: MachineEvidence): string {
  const ders = certificates.map(toBase64);
  return JSON.stringify({ vendor, report: toBase64(report), certificates: ders, collateral });
}

/** Reads an evidence document; refuses unknown vendors, other shapes and more than it may hold. */
export function readEvidence(text: string): Result<MachineEvidence> {
  if (text.length > MOST_EVIDENCE_LETTERS) {
    return refuse('too-large', '', `evidence has at most ${MOST_EVIDENCE_LETTERS} characters`);
  }
  const json = jsonIn(text);
  if (!isObject(json)) return refuse('malformed', '', 'evidence is a JSON object');
  const { vendor, report, certificates = [], collateral = {} } = json;
  const name = vendorNames.find((each) => each === vendor);
  if (name === undefined) {
    return refuse('unknown-vendor', 'vendor', `known vendors are ${vendorNames.join(', ')}`);
  }
  const bytes = bytesOf(report);
  if (bytes === undefined) return refuse('malformed', 'report', 'not base64');
  const ders = (Array.isArray(certificates) ? certificates : [undefined]).map(bytesOf);
  if (ders.length > MOST_CERTIFICATES || ders.includes(undefined)) {
    return refuse('malformed', 'certificates', `not a list of at most ${MOST_CERTIFICATES} in DER`);
  }
  if (!isObject(collateral) || !areTexts(Object.values(collateral))) {
    return refuse('malformed', 'collateral', 'not texts by name');
  }
  const documents = collateral as MachineEvidence['collateral'];
  const known = { vendor: name, report: bytes, collateral: documents };
  return ok({ ...known, certificates: ders as Uint8Array[] });
}

const bytesOf = (value: unknown) => (isText(value) ? fromBase64(value) : undefined);
const areTexts = listOf(isText, MOST_DOCUMENTS);

/** Refuses claims that the policy of a run does not accept, by the field that differs. The vendor is judged before. */
export function judgeClaims(
  claims: Claims,
  policy: MachinePolicy,
  userData: string,
): Result<Claims> {
  const { measurement, isDebug, status } = claims;
  // a GPU binds the first 32 bytes
  if (claims.userData.length < 64 || !userData.startsWith(claims.userData)) {
    return refuse('user-data', 'userData', 'the evidence is bound to another key, run or round');
  }
  if (isDebug) return refuse('debug', 'isDebug', 'the owner of the machine can read its memory');
  if (policy.measurements.length > 0 && !policy.measurements.includes(measurement)) {
    return refuse('measurement', 'measurement', 'the machine runs code that the run does not name');
  }
  if (tcbStatuses.indexOf(status) > tcbStatuses.indexOf(policy.leastStatus)) {
    return refuse('status', 'status', `the run accepts ${policy.leastStatus} or better`);
  }
  return ok(claims);
}

const BINDING = utf8('nostrain/attest/1');

/** What a joiner's machine binds into its report; all but the run are 64 hex characters. */
export interface Binding {
  /** Address of the run. */
  readonly run: string;
  readonly worker: string;
  /** X25519 public key. */
  readonly sealKey: string;
  /** Randomness of an earlier round of the run, so that the report is not older. */
  readonly entropy: string;
}

/** Returns the user data that binds a report to a machine's keys, a run and a time: SHA-512, 64 bytes, hex. */
export function userDataOf({ run, worker, sealKey, entropy }: Binding): string {
  const keys = [worker, sealKey, entropy].map((hex) => fromHex(hex) ?? new Uint8Array());
  const parts = [BINDING, utf8(run), ...keys];
  const sizes = parts.map((part) => Uint8Array.of(part.length >> 8, part.length & 255));
  const message = parts.flatMap((part, i) => [...sizes[i]!, ...part]);
  return toHex(sha512(Uint8Array.from(message)));
}
