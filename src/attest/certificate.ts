/** X.509 certificates and revocation lists (RFC 5280): reading, chains up to a pinned root, signatures. */
import { p256, p384 } from '@noble/curves/nist.js';
import { sha384 } from '@noble/hashes/sha2.js';
import { Recent } from '../base/bounded.ts';
import { concatBytes, fromHex, toHex } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { sha256, sha256Hex } from '../base/hash.ts';
import {
  bitString,
  childrenOf,
  type Der,
  derOf,
  derTime,
  objectId,
  readDer,
  smallInteger,
  TAGS,
  tagged,
} from './der.ts';

/** Bits of the window of each curve's table, which is made for the first signature: 8, the default, takes 50 ms. */
const WINDOW_BITS = 4;
for (const { Point } of [p256, p384]) Point.BASE.precompute(WINDOW_BITS);

/** What of a certificate decides. */
export interface X509 {
  readonly der: Uint8Array;
  readonly body: Uint8Array;
  readonly signature: Uint8Array;
  readonly algorithm: SignatureAlgorithm;
  /** Hex. */
  readonly serial: string;
  /** Hex of the name in DER. */
  readonly issuer: string;
  readonly subject: string;
  /** Unix seconds. */
  readonly notBefore: number;
  readonly notAfter: number;
  /** SubjectPublicKeyInfo in DER. */
  readonly publicKey: Uint8Array;
  readonly isAuthority: boolean;
  /** Values of the extensions by object identifier. */
  readonly extensions: ReadonlyMap<string, Uint8Array>;
}

/** A list of revoked certificates. */
interface RevocationList extends Pick<X509, 'body' | 'signature' | 'algorithm' | 'issuer'> {
  readonly thisUpdate: number;
  readonly nextUpdate: number;
  /** Serial numbers, hex. */
  readonly revoked: ReadonlySet<string>;
}

type SignatureAlgorithm = 'ecdsa-sha256' | 'ecdsa-sha384' | 'rsa-pss-sha384';

const ALGORITHMS: Readonly<Record<string, SignatureAlgorithm>> = {
  '1.2.840.10045.4.3.2': 'ecdsa-sha256',
  '1.2.840.10045.4.3.3': 'ecdsa-sha384',
  '1.2.840.113549.1.1.10': 'rsa-pss-sha384',
};
const BASIC_CONSTRAINTS = '2.5.29.19';
/** Longest chain, root included. */
const LONGEST_CHAIN = 8;
/** Certificates of known vendors take at most 2 kB each. */
const MOST_CERTIFICATE_BYTES = 8192;

/** Reads a certificate; refuses malformed DER and unknown signature algorithms. */
function readCertificate(der: Uint8Array, at: string): Result<X509> {
  if (der.length > MOST_CERTIFICATE_BYTES) {
    return refuse('too-large', at, `a certificate of more than ${MOST_CERTIFICATE_BYTES} bytes`);
  }
  const read = readDer(at, () => certificateOf(der));
  if (!read.ok) return read;
  return read.value === undefined
    ? refuse('unknown-algorithm', at, 'a certificate is signed in a way that is not supported')
    : ok(read.value);
}

function certificateOf(der: Uint8Array): X509 | undefined {
  const [body, outer, signature] = childrenOf(tagged(derOf(der), TAGS.sequence));
  const values = childrenOf(tagged(body, TAGS.sequence));
  const fields = values[0]?.tag === TAGS.explicit0 ? values.slice(1) : values;
  const [serial, inner, issuer, validity, subject, publicKey] = fields;
  const algorithm = algorithmOf(inner, outer);
  if (algorithm === undefined) return undefined;
  const [notBefore, notAfter] = childrenOf(tagged(validity, TAGS.sequence));
  const extensions = extensionsOf(fields.find(({ tag }) => tag === TAGS.explicit3));
  return {
    der,
    body: tagged(body, TAGS.sequence).whole,
    signature: bitString(signature),
    algorithm,
    serial: toHex(tagged(serial, TAGS.integer).content),
    issuer: toHex(tagged(issuer, TAGS.sequence).whole),
    subject: toHex(tagged(subject, TAGS.sequence).whole),
    notBefore: derTime(notBefore),
    notAfter: derTime(notAfter),
    publicKey: tagged(publicKey, TAGS.sequence).whole,
    isAuthority: mayCertify(extensions.get(BASIC_CONSTRAINTS)),
    extensions,
  };
}

/** Returns the algorithm that both places name; undefined if they differ or it is unknown. */
function algorithmOf(
  inner: Der | undefined,
  outer: Der | undefined,
): SignatureAlgorithm | undefined {
  const [one, two] = [inner, outer].map((value) => tagged(value, TAGS.sequence));
  if (toHex(one!.whole) !== toHex(two!.whole)) return undefined;
  return ALGORITHMS[objectId(childrenOf(one!)[0])];
}

function extensionsOf(value: Der | undefined): ReadonlyMap<string, Uint8Array> {
  if (value === undefined) return new Map();
  const all = childrenOf(tagged(childrenOf(value)[0], TAGS.sequence));
  return new Map(
    all.map((extension) => {
      const parts = childrenOf(tagged(extension, TAGS.sequence));
      return [objectId(parts[0]), tagged(parts.at(-1), TAGS.octetString).content];
    }),
  );
}

function mayCertify(constraints: Uint8Array | undefined): boolean {
  if (constraints === undefined) return false;
  const [first] = childrenOf(tagged(derOf(constraints), TAGS.sequence));
  return first?.tag === TAGS.boolean && first.content[0] === 0xff;
}

/** Splits PEM into DER; undefined if a block is not base64. Text between blocks is ignored. */
export function pemBlocks(text: string): readonly Uint8Array[] | undefined {
  const blocks = text.matchAll(/-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----/g);
  try {
    return [...blocks].map(([, base64 = '']) =>
      Uint8Array.from(atob(base64.replace(/\s/g, '')), (letter) => letter.charCodeAt(0)),
    );
  } catch {
    return undefined;
  }
}

/** Certificates, leaf first, up to a root. */
export type X509Chain = readonly [leaf: X509, ...others: X509[]];

/** What a chain must satisfy: valid at this time (Unix seconds), and a root with one of these SHA-256 digests. */
interface Trust {
  readonly at: number;
  readonly roots: readonly string[];
  /** Path of the chain, for refusals. */
  readonly where: string;
}

/** Reads a chain from DER, leaf first, and checks that each certificate is valid and signed by the next one. */
export function trustedChain(
  ders: readonly Uint8Array[],
  { at, roots, where }: Trust,
): Result<X509Chain> {
  const chain: X509[] = [];
  for (const [i, der] of ders.slice(0, LONGEST_CHAIN + 1).entries()) {
    const read = readCertificate(der, `${where}.${i}`);
    if (!read.ok) return read;
    chain.push(read.value);
  }
  const [leaf, ...others] = chain;
  if (leaf === undefined || chain.length > LONGEST_CHAIN) {
    return refuse('bad-chain', where, `a chain has 1 to ${LONGEST_CHAIN} certificates`);
  }
  if (!roots.includes(sha256Hex(chain.at(-1)!.der))) {
    return refuse('unknown-root', where, 'the chain does not end at the root of its vendor');
  }
  for (const [i, one] of chain.entries()) {
    const path = `${where}.${i}`;
    if (at < one.notBefore) return refuse('not-yet-valid', path, 'a certificate is not valid yet');
    if (at > one.notAfter) return refuse('expired', path, 'a certificate has expired');
    const signer = chain[i + 1];
    // the root is pinned
    if (signer === undefined) continue;
    const isIssuer = signer.isAuthority && one.issuer === signer.subject;
    if (!isIssuer || !isSignedBy(one, signer.publicKey)) {
      return refuse('bad-chain', path, 'a certificate is not signed by the next one');
    }
  }
  return ok([leaf, ...others]);
}

/** Reads a revocation list and checks that this certificate signed it and that it is current at the time. */
export function readRevocations(
  der: Uint8Array,
  { signer, at, where }: { signer: X509; at: number; where: string },
): Result<ReadonlySet<string>> {
  const read = readDer(where, () => revocationListOf(der));
  if (!read.ok) return read;
  const list = read.value;
  if (list === undefined || list.issuer !== signer.subject) {
    return refuse('bad-revocations', where, 'the revocation list is not by the issuer');
  }
  if (!isSignedBy(list, signer.publicKey)) {
    return refuse('bad-signature', where, 'the signature of the revocation list does not verify');
  }
  if (at < list.thisUpdate || at > list.nextUpdate) {
    return refuse('expired', where, 'the revocation list is not current');
  }
  return ok(list.revoked);
}

function revocationListOf(der: Uint8Array): RevocationList | undefined {
  const [body, outer, signature] = childrenOf(tagged(derOf(der), TAGS.sequence));
  const values = childrenOf(tagged(body, TAGS.sequence));
  const fields = values[0]?.tag === TAGS.integer ? values.slice(1) : values;
  const [inner, issuer, thisUpdate, nextUpdate, entries] = fields;
  const algorithm = algorithmOf(inner, outer);
  if (algorithm === undefined) return undefined;
  const revoked = entries?.tag === TAGS.sequence ? childrenOf(entries) : [];
  return {
    body: tagged(body, TAGS.sequence).whole,
    signature: bitString(signature),
    algorithm,
    issuer: toHex(tagged(issuer, TAGS.sequence).whole),
    thisUpdate: derTime(thisUpdate),
    nextUpdate: derTime(nextUpdate),
    revoked: new Set(
      revoked.map((entry) => toHex(tagged(childrenOf(entry)[0], TAGS.integer).content)),
    ),
  };
}

type Signed = Pick<X509, 'body' | 'signature' | 'algorithm'>;

/** Maximum number of remembered signatures; each takes about 200 bytes. */
const MOST_REMEMBERED = 1024;
/** Genuine signatures by their hashes, because the machines of a vendor share most certificates. */
const genuine = new Recent<true>(MOST_REMEMBERED);

function isSignedBy(signed: Signed, key: Uint8Array): boolean {
  const { body, signature, algorithm } = signed;
  const id = [algorithm, ...[body, signature, key].map(sha256Hex)].join();
  if (genuine.get(id)) return true;
  const holds = verifies(signed, key);
  if (holds) genuine.set(id, true);
  return holds;
}

function verifies({ body, signature, algorithm }: Signed, key: Uint8Array): boolean {
  if (algorithm === 'rsa-pss-sha384') return isRsaSigned(body, signature, key);
  const pair = readDer('signature', () =>
    childrenOf(tagged(derOf(signature), TAGS.sequence)).map(
      (value) => tagged(value, TAGS.integer).content,
    ),
  );
  if (!pair.ok || pair.value.length !== 2) return false;
  const size = COORDINATE_BYTES[curveOf(key) ?? 'P-384'];
  const [r, s] = pair.value.map((value) => unsigned(value, size));
  if (r === undefined || s === undefined) return false;
  const raw = new Uint8Array(2 * size);
  raw.set(r);
  raw.set(s, size);
  return isEcdsaSigned(body, raw, { key, hash: algorithm === 'ecdsa-sha256' ? 256 : 384 });
}

/** Returns the number in a DER integer as `size` big-endian bytes; undefined if the number is negative or longer. */
function unsigned(content: Uint8Array, size: number): Uint8Array | undefined {
  const digits = content[0] === 0 ? content.subarray(1) : content;
  if (digits.length > size || (content[0] ?? 0x80) >= 0x80) return undefined;
  const out = new Uint8Array(size);
  out.set(digits, size - digits.length);
  return out;
}

/** Bytes of a SHA-384 digest, which is also the length of the salt (RFC 4055). */
const DIGEST_BYTES = 48;
const RSA_EXPONENT = 65_537n;
/** Longest modulus: AMD's keys have 512 bytes. */
const MOST_MODULUS_BYTES = 512;

/** Verifies RSA-PSS with SHA-384 and exponent 65537 (RFC 8017, sections 8.1.2 and 9.1.2). */
function isRsaSigned(body: Uint8Array, signature: Uint8Array, key: Uint8Array): boolean {
  const read = readDer('key', () => {
    const [, bits] = childrenOf(tagged(derOf(key), TAGS.sequence));
    return childrenOf(tagged(derOf(bitString(bits)), TAGS.sequence)).map((value) =>
      bigInteger(tagged(value, TAGS.integer).content),
    );
  });
  const [modulus, exponent] = read.ok ? read.value : [];
  const size = signature.length;
  if (modulus === undefined || exponent !== RSA_EXPONENT || size > MOST_MODULUS_BYTES) return false;
  const number = bigInteger(signature);
  if (number >= modulus || modulus >> BigInt(8 * size - 1) !== 1n) return false;
  let power = number;
  for (let i = 0; i < 16; i++) power = (power * power) % modulus;
  const hex = ((power * number) % modulus).toString(16).padStart(2 * size, '0');
  return isPadded(fromHex(hex)!, sha384(body));
}

const bigInteger = (bytes: Uint8Array): bigint => BigInt(`0x${toHex(bytes) || '0'}`);

/** Checks the encoding EMSA-PSS of a digest, one bit shorter than the modulus. */
function isPadded(encoded: Uint8Array, digest: Uint8Array): boolean {
  const end = encoded.length - DIGEST_BYTES - 1;
  const [masked, hash] = [encoded.subarray(0, end), encoded.subarray(end, -1)];
  if (end < DIGEST_BYTES + 1 || encoded.at(-1) !== 0xbc || masked[0]! >= 0x80) return false;
  const blocks = Array.from({ length: Math.ceil(end / DIGEST_BYTES) }, (_, i) =>
    sha384(concatBytes(hash, Uint8Array.of(0, 0, i >> 8, i & 255))),
  );
  const mask = concatBytes(...blocks);
  const data = masked.map((byte, i) => byte ^ mask[i]!);
  data[0]! &= 0x7f;
  const salt = data.subarray(end - DIGEST_BYTES);
  const isZero = data.subarray(0, end - DIGEST_BYTES - 1).every((byte) => byte === 0);
  const expected = sha384(concatBytes(new Uint8Array(8), digest, salt));
  return isZero && data[end - DIGEST_BYTES - 1] === 1 && toHex(expected) === toHex(hash);
}

/** Reports whether an ECDSA signature (r and s, big-endian) over the SHA-2 hash of a message is by this key (SPKI). */
export function isEcdsaSigned(
  message: Uint8Array,
  signature: Uint8Array,
  { key, hash }: { readonly key: Uint8Array; readonly hash: 256 | 384 },
): boolean {
  const curve = curveOf(key);
  if (curve === undefined) return false;
  // the key is the last value of its SubjectPublicKeyInfo: 04, then two coordinates
  const point = key.subarray(-(2 * COORDINATE_BYTES[curve] + 1));
  const digest = hash === 256 ? sha256(message) : sha384(message);
  try {
    const how = { prehash: false, lowS: false };
    return (curve === 'P-256' ? p256 : p384).verify(signature, digest, point, how);
  } catch {
    return false; // the key is not a point of the curve, or the signature has another length
  }
}

const COORDINATE_BYTES = { 'P-256': 32, 'P-384': 48 } as const;

const CURVES: Readonly<Record<string, 'P-256' | 'P-384'>> = {
  '1.2.840.10045.3.1.7': 'P-256',
  '1.3.132.0.34': 'P-384',
};

function curveOf(key: Uint8Array): 'P-256' | 'P-384' | undefined {
  const read = readDer('key', () => {
    const [algorithm] = childrenOf(tagged(derOf(key), TAGS.sequence));
    return objectId(childrenOf(tagged(algorithm, TAGS.sequence))[1]);
  });
  return read.ok ? CURVES[read.value] : undefined;
}

const P256_KEY = [
  0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
  0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];

/** Returns the SubjectPublicKeyInfo of a P-256 key from its two coordinates (64 bytes). */
export const p256Key = (coordinates: Uint8Array): Uint8Array =>
  Uint8Array.from([...P256_KEY, ...coordinates]);

/** Returns the value of a DER integer extension; undefined if absent. */
export function integerExtension({ extensions }: X509, id: string): number | undefined {
  const bytes = extensions.get(id);
  if (bytes === undefined) return undefined;
  const read = readDer(id, () => smallInteger(derOf(bytes)));
  return read.ok ? read.value : undefined;
}
