/** Measurements of an NVIDIA GPU (Hopper): an SPDM 1.1 request and response (DMTF DSP0274) with opaque data. */
import { toHex } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { isEcdsaSigned, trustedChain } from './certificate.ts';
import type { Claims, Verifier } from './evidence.ts';

/** SHA-256 of the certificate of NVIDIA Device Identity CA. */
const ROOTS = ['102bf659d5419614c9d8e6aecebc80454eb26b1df6a769ac720b9a690b167b48'];
const REQUEST_BYTES = 37;
const SIGNATURE_BYTES = 96;
const MEASUREMENTS = 0x60;
const NONCE_BYTES = 32;
const MOST_BLOCKS = 64;
/** Largest report: what a machine signs has about 4 kB. */
const MOST_REPORT_BYTES = 16_384;

/** Verifies the signature and the chain (leaf first in `certificates`); golden values come from the policy. */
export const verifyNvidia: Verifier = ({ report, certificates }, at) => {
  const read = measurementsOf(report);
  if (!read.ok) return read;
  const chain = trustedChain(certificates, { at, roots: ROOTS, where: 'certificates' });
  if (!chain.ok) return chain;
  const signed = report.subarray(0, report.length - SIGNATURE_BYTES);
  const signature = report.subarray(report.length - SIGNATURE_BYTES);
  const key = chain.value[0].publicKey;
  const genuine = isEcdsaSigned(signed, signature, { key, hash: 384 });
  return genuine ? ok(read.value) : refuse('bad-signature', 'report', 'not signed by the GPU');
};

const cut = refuse('malformed', 'report', 'not a request and response for measurements');

function measurementsOf(report: Uint8Array): Result<Claims> {
  if (report.length > MOST_REPORT_BYTES || report.length < REQUEST_BYTES + 8 + NONCE_BYTES)
    return cut;
  const response = report.subarray(REQUEST_BYTES);
  const view = new DataView(response.buffer, response.byteOffset, response.length);
  const [blocks, length] = [response[4]!, view.getUint16(5, true) + 65_536 * response[7]!];
  const end = 8 + length;
  if (response[1] !== MEASUREMENTS || blocks > MOST_BLOCKS) return cut;
  if (end + NONCE_BYTES + 2 > response.length) return cut;
  const opaque = view.getUint16(end + NONCE_BYTES, true);
  if (end + NONCE_BYTES + 2 + opaque + SIGNATURE_BYTES !== response.length) return cut;
  const values: [string, string][] = [];
  let at = 8;
  for (let block = 0; block < blocks; block++) {
    // index, specification and size of a block, then type and size of its value
    if (at + 7 > end) return cut;
    const size = view.getUint16(at + 5, true);
    if (view.getUint16(at + 2, true) !== size + 3 || at + 7 + size > end) return cut;
    values.push([`${response[at]}`, toHex(response.subarray(at + 7, at + 7 + size))]);
    at += 7 + size;
  }
  if (at !== end) return cut;
  return ok({
    vendor: 'nvidia-gpu',
    measurement: '',
    measurements: Object.fromEntries(values),
    // the nonce of the request, by which a report is fresh and bound
    userData: toHex(report.subarray(4, 4 + NONCE_BYTES)),
    isDebug: false,
    status: 'UpToDate',
  });
}
