/** AWS Nitro Enclaves attestation documents: COSE_Sign1 (RFC 9052) with ES384 over a CBOR map. */
import { decode, encode } from 'cborg';
import { toHex } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { isEcdsaSigned, trustedChain } from './certificate.ts';
import type { Claims, Verifier } from './evidence.ts';

/** SHA-256 of the certificate of aws.nitro-enclaves. */
const ROOTS = ['641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b'];
const MOST_DOCUMENT_BYTES = 32_768;
/** Protected header {1: -35}: the signature is ES384. */
const ES384 = 'a1013822';
const SIGNATURE_BYTES = 96;

/** Verifies a document by the chain that it holds; its leaf is valid for hours, so the time decides. */
export const verifyNitro: Verifier = ({ report }, at) => {
  if (report.length > MOST_DOCUMENT_BYTES) {
    return refuse('too-large', 'report', `a document has at most ${MOST_DOCUMENT_BYTES} bytes`);
  }
  const message = decoded(report);
  const [header, , payload, signature] = Array.isArray(message) ? message : [];
  if (!isBytes(header) || !isBytes(payload) || !isBytes(signature)) return malformed;
  if (toHex(header) !== ES384 || signature.length !== SIGNATURE_BYTES) return malformed;
  const document = decoded(payload);
  if (!(document instanceof Map)) return malformed;
  const [leaf, bundle] = [document.get('certificate'), document.get('cabundle')];
  if (!isBytes(leaf) || !Array.isArray(bundle) || !bundle.every(isBytes)) return malformed;
  const trust = { at, roots: ROOTS, where: 'report.cabundle' };
  const chain = trustedChain([leaf, ...bundle.toReversed()], trust);
  if (!chain.ok) return chain;
  const signed = encode(['Signature1', header, new Uint8Array(), payload]);
  const key = chain.value[0].publicKey;
  if (!isEcdsaSigned(signed, signature, { key, hash: 384 })) {
    return refuse('bad-signature', 'report', 'the document is not signed by its certificate');
  }
  return claimsOf(document);
};

const malformed = refuse('malformed', 'report', 'not an attestation document');

const isBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array;

function decoded(bytes: Uint8Array): unknown {
  try {
    const tags = { 18: (value: unknown) => value };
    return decode(bytes, { useMaps: true, tags: tags as never, rejectDuplicateMapKeys: true });
  } catch {
    return undefined;
  }
}

function claimsOf(document: ReadonlyMap<unknown, unknown>): Result<Claims> {
  const registers = document.get('pcrs');
  if (!(registers instanceof Map) || registers.size > 32) return malformed;
  const values = new Map<string, string>();
  for (const [index, value] of registers) {
    if (!isBytes(value)) return malformed;
    values.set(`pcr${index}`, toHex(value));
  }
  const bound = document.get('user_data');
  // image, kernel and application; a machine in debug mode measures nothing
  const measurement = [0, 1, 2].map((index) => values.get(`pcr${index}`) ?? '').join('');
  return ok({
    vendor: 'aws-nitro',
    measurement,
    measurements: Object.fromEntries(values),
    userData: isBytes(bound) ? toHex(bound) : '',
    isDebug: /^0*$/.test(measurement),
    status: 'UpToDate',
  });
}
