/** AMD SEV-SNP attestation reports (SEV Secure Nested Paging Firmware ABI, publication 56860: ATTESTATION_REPORT). */
import { toHex } from '../base/bytes.ts';
import { ok, refuse } from '../base/errors.ts';
import { integerExtension, isEcdsaSigned, trustedChain, type X509 } from './certificate.ts';
import type { Claims, Verifier } from './evidence.ts';

const REPORT_BYTES = 0x4a0;
const SIGNED_BYTES = 0x2a0;
/** Bytes of one number of the signature, little-endian. */
const SLOT = 72;
const DEBUG_BIT = 19;
/** SHA-256 of the roots (ARK) of Milan, Genoa and Turin. */
const ROOTS = [
  '69d063b45344d26a2e94e1f4210de49ef555308287d4c174445c95639a540bcd',
  '4c6598d19c18719c5dfd4a7d335f674e5bfe1d8f800cea2cf270c10d103db2f1',
  '1f084161a44bb6d93778a904877d4819cafa5d05ef4193b2ded9dd9c73dd3f6a',
];
const OID = '1.3.6.1.4.1.3704.1';
/** Extensions of a VCEK with the versions of its firmware, and their bytes in the report's TCB (Milan and Genoa). */
const VERSIONS = [
  [`${OID}.3.1`, 0],
  [`${OID}.3.2`, 1],
  [`${OID}.3.3`, 6],
  [`${OID}.3.8`, 7],
] as const;
/** The same for Turin, whose first byte is the version of another firmware. */
const TURIN_VERSIONS = [
  [`${OID}.3.9`, 0],
  [`${OID}.3.1`, 1],
  [`${OID}.3.2`, 2],
  [`${OID}.3.3`, 3],
  [`${OID}.3.8`, 7],
] as const;
const CHIP_ID = `${OID}.4`;

/** Verifies a report by its chip's key (VCEK, ASK, ARK in `certificates`). Loaded keys (VLEK) name no chip. */
export const verifyAmd: Verifier = ({ report, certificates }, at) => {
  if (report.length !== REPORT_BYTES) {
    return refuse('malformed', 'report', `a report has ${REPORT_BYTES} bytes`);
  }
  const view = new DataView(report.buffer, report.byteOffset, report.length);
  const [version, algorithm] = [view.getUint32(0, true), view.getUint32(0x34, true)];
  if (version < 2 || version > 5 || algorithm !== 1) {
    return refuse('unknown-version', 'report', 'a report of another version or algorithm');
  }
  const chain = trustedChain(certificates, { at, roots: ROOTS, where: 'certificates' });
  if (!chain.ok) return chain;
  const [key] = chain.value;
  const mismatch = certificateMismatch(report, key);
  if (mismatch !== undefined) return refuse('other-chip', 'certificates.0', mismatch);
  const signature = signatureOf(report);
  const message = report.subarray(0, SIGNED_BYTES);
  const genuine = isEcdsaSigned(message, signature, { key: key.publicKey, hash: 384 });
  return genuine
    ? ok(claimsOf(report, view))
    : refuse('bad-signature', 'report', 'not signed by the chip');
};

/** Returns r and s, big-endian, of 48 bytes each; zeros, which never verify, if their slots hold more. */
function signatureOf(report: Uint8Array): Uint8Array {
  const out = new Uint8Array(96);
  for (const half of [0, 1]) {
    const slot = report.subarray(SIGNED_BYTES + half * SLOT, SIGNED_BYTES + (half + 1) * SLOT);
    if (slot.subarray(48).some((byte) => byte !== 0)) return new Uint8Array(96);
    out.set(slot.slice(0, 48).reverse(), 48 * half);
  }
  return out;
}

/** Says how the chip's certificate differs from the report; undefined if both speak of the same chip and firmware. */
function certificateMismatch(report: Uint8Array, key: X509): string | undefined {
  const isTurin = integerExtension(key, `${OID}.3.9`) !== undefined;
  const tcb = report.subarray(0x180, 0x188);
  const differs = (isTurin ? TURIN_VERSIONS : VERSIONS).some(
    ([id, byte]) => integerExtension(key, id) !== tcb[byte],
  );
  if (differs) return 'the key is of another firmware than the report';
  const chip = key.extensions.get(CHIP_ID);
  if (chip === undefined) return 'the certificate names no chip';
  const isSame = toHex(report.subarray(0x1a0, 0x1a0 + chip.length)) === toHex(chip);
  return isSame ? undefined : 'the certificate is of another chip';
}

function claimsOf(report: Uint8Array, view: DataView): Claims {
  const field = (start: number, bytes: number) => toHex(report.subarray(start, start + bytes));
  const policy = view.getBigUint64(0x8, true);
  return {
    vendor: 'amd-sev-snp',
    measurement: field(0x90, 48),
    measurements: { hostData: field(0xc0, 32), idKeyDigest: field(0xe0, 48) },
    userData: field(0x50, 64),
    isDebug: ((policy >> BigInt(DEBUG_BIT)) & 1n) === 1n,
    // a firmware that is running but not committed can be rolled back
    status: field(0x180, 8) === field(0x1e0, 8) ? 'UpToDate' : 'ConfigurationNeeded',
  };
}
