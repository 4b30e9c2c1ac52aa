/**
 * Verifies Schnorr signatures (BIP-340) with the fastest library that loads: compiled code (`secp256k1`, an optional
 * package), WebAssembly, which is three times slower, or JavaScript, which is thirty times slower.
 */
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { schnorr } from '@noble/curves/secp256k1.js';

/**
 * Reports whether the signature (64 bytes) of the digest (32 bytes) was made with the key (32 bytes, x only). Never
 * throws.
 */
type VerifySignature = (sig: Uint8Array, digest: Uint8Array, pubkey: Uint8Array) => boolean;

/** Verifies in JavaScript; returns false for values out of range. */
export const verifyInJavaScript: VerifySignature = (sig, digest, pubkey) =>
  schnorr.verify(
    Uint8Array.from(sig), // `noble` takes no Buffer
    Uint8Array.from(digest),
    Uint8Array.from(pubkey),
  );

type WebAssembled = Pick<typeof import('tiny-secp256k1'), 'verifySchnorr'>;

const verifyByWebAssembly =
  ({ verifySchnorr }: WebAssembled): VerifySignature =>
  (sig, digest, pubkey) => {
    try {
      return verifySchnorr(digest, pubkey, sig);
    } catch {
      // it throws for a key that is not on the curve and for a signature out of range
      return false;
    }
  };

/** The part of `secp256k1/bindings.js` that is used. */
interface Compiled {
  /** Returns the public key (33 bytes) that signed the hash; throws an Error if no key did. */
  ecdsaRecover(
    sig: Uint8Array,
    recovery: number,
    hash: Uint8Array,
    compressed: boolean,
  ): Uint8Array;
}

/** The order of the group. */
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const EVEN_Y = 2;
const TAG = createHash('sha256').update('BIP0340/challenge').digest();

const numberOf = (bytes: Uint8Array): bigint =>
  BigInt(`0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')}`);
/** Returns -(a * b) modulo the order, as 32 bytes. */
const negatedProduct = (a: bigint, b: bigint): Buffer =>
  Buffer.from((ORDER - ((a * b) % ORDER)).toString(16).padStart(64, '0'), 'hex');

/**
 * Verifies by recovering an ECDSA key, since `secp256k1` has no Schnorr signatures. Recovery returns (s'P - z'G) / r',
 * where P is the point with x-coordinate r' and even y. With r' = P.x, s' = -e * P.x and z' = -s * P.x, this is
 * sG - eP, the point that the signature names. Where recovery is not defined (a key that is not on the curve, zero),
 * `otherwise` verifies.
 */
const verifyByRecovery =
  ({ ecdsaRecover }: Compiled, otherwise: VerifySignature): VerifySignature =>
  (sig, digest, pubkey) => {
    const [named, s] = [sig.subarray(0, 32), numberOf(sig.subarray(32))];
    if (s >= ORDER) return false;
    const hash = createHash('sha256').update(TAG).update(TAG);
    const e = numberOf(hash.update(named).update(pubkey).update(digest).digest());
    const x = numberOf(pubkey);
    const ecdsa = Buffer.concat([pubkey, negatedProduct(e, x)]);
    try {
      const point = ecdsaRecover(ecdsa, 0, negatedProduct(s, x), true);
      return point[0] === EVEN_Y && Buffer.compare(point.subarray(1), named) === 0;
    } catch {
      return otherwise(sig, digest, pubkey);
    }
  };

/** Returns the fastest function whose library `load` returns. */
export function loadVerify(load: (name: string) => unknown): VerifySignature {
  let verify = verifyInJavaScript;
  try {
    verify = verifyByWebAssembly(load('tiny-secp256k1') as WebAssembled);
    return verifyByRecovery(load('secp256k1/bindings.js') as Compiled, verify);
  } catch {
    return verify;
  }
}

// `require`, since an `import()` that may fail would need a top-level await
export const verifySignature = loadVerify(createRequire(import.meta.url));
