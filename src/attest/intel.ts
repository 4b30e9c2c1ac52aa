/** Intel TDX and SGX quotes: signatures of quote and quoting enclave, and the certificate of the processor. */
import { toHex } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { sha256 } from '../base/hash.ts';
import { isEcdsaSigned, p256Key, pemBlocks, trustedChain, type X509Chain } from './certificate.ts';
import type { Claims, Verifier } from './evidence.ts';
import { INTEL_ROOTS, judgeCollateral } from './intel-collateral.ts';
import { type Quote, readQuote } from './intel-quote.ts';

/** Verifies a quote with the collateral of Intel's provisioning service, as of this time. */
const verifyQuote =
  (isTdx: boolean): Verifier =>
  ({ report, collateral }, at) => {
    const read = readQuote(report);
    if (!read.ok) return read;
    const quote = read.value;
    if (quote.isTdx !== isTdx) return refuse('malformed', 'report', 'a quote of another machine');
    const processor = processorOf(quote, at);
    if (!processor.ok) return processor;
    const judged = judgeCollateral({ quote, chain: processor.value, collateral, at });
    return judged.ok ? ok({ ...claimsOf(quote), status: judged.value }) : judged;
  };

export const verifyTdx = verifyQuote(true);
export const verifySgx = verifyQuote(false);

/** Checks the signatures from the processor's certificate down to the quote; returns its chain. */
function processorOf(quote: Quote, at: number): Result<X509Chain> {
  const where = 'report.certificates';
  const ders = pemBlocks(quote.certificates);
  if (ders === undefined) return refuse('malformed', where, 'a certificate is not base64');
  const chain = trustedChain(ders, { at, roots: INTEL_ROOTS, where });
  if (!chain.ok) return chain;
  const signer = { key: chain.value[0].publicKey, hash: 256 } as const;
  if (!isEcdsaSigned(quote.enclave, quote.enclaveSignature, signer)) {
    return refuse('bad-signature', 'report.enclave', 'not signed by the processor');
  }
  const bound = sha256(Uint8Array.from([...quote.key, ...quote.enclaveData]));
  const expected = toHex(bound).padEnd(128, '0');
  if (toHex(quote.enclave.subarray(320, 384)) !== expected) {
    return refuse('other-key', 'report.key', 'the quoting enclave does not name this key');
  }
  const attested = { key: p256Key(quote.key), hash: 256 } as const;
  const genuine = isEcdsaSigned(quote.signed, quote.signature, attested);
  return genuine ? chain : refuse('bad-signature', 'report', 'not signed by its attestation key');
}

function claimsOf({ isTdx, body }: Quote): Omit<Claims, 'status'> {
  const field = (start: number, bytes: number) => toHex(body.subarray(start, start + bytes));
  if (!isTdx) {
    return {
      vendor: 'intel-sgx',
      measurement: field(64, 32),
      measurements: { signer: field(128, 32), product: field(256, 2), version: field(258, 2) },
      userData: field(320, 64),
      isDebug: (body[48]! & 2) !== 0,
    };
  }
  const registers = [0, 1, 2, 3].map((i) => [`rtmr${i}`, field(328 + 48 * i, 48)]);
  return {
    vendor: 'intel-tdx',
    measurement: field(136, 48),
    measurements: { ...Object.fromEntries(registers), configuration: field(184, 48) },
    userData: field(520, 64),
    isDebug: (body[120]! & 1) !== 0,
  };
}
