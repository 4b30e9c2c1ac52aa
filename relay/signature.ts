/**
 * Verifies Schnorr signatures (BIP-340) with compiled code; if that does not load, with JavaScript, which is five times
 * slower.
 */
import { createRequire } from 'node:module';
import { schnorr } from '@noble/curves/secp256k1.js';

/**
 * Reports whether the signature (64 bytes) of the digest (32 bytes) was made with the key (32 bytes, x only). Never
 * throws.
 */
type VerifySignature = (sig: Uint8Array, digest: Uint8Array, pubkey: Uint8Array) => boolean;

type Compiled = Pick<typeof import('tiny-secp256k1'), 'verifySchnorr'>;

/** Verifies in JavaScript; returns false for values out of range. */
export const verifyInJavaScript: VerifySignature = (sig, digest, pubkey) =>
  schnorr.verify(
    Uint8Array.from(sig), // `noble` takes no Buffer
    Uint8Array.from(digest),
    Uint8Array.from(pubkey),
  );

/** Returns the compiled function, or the JavaScript one if the module cannot be loaded. */
export function loadVerify(load: () => Compiled): VerifySignature {
  try {
    const { verifySchnorr } = load();
    return (sig, digest, pubkey) => {
      try {
        return verifySchnorr(digest, pubkey, sig);
      } catch {
        // it throws for a key that is not on the curve and for a signature out of range
        return false;
      }
    };
  } catch {
    return verifyInJavaScript;
  }
}

// `require`, since an `import()` that may fail would need a top-level await
export const verifySignature = loadVerify(() => createRequire(import.meta.url)('tiny-secp256k1'));
