/** Checks Schnorr signatures (BIP-340) with compiled code; if that does not load, in JavaScript, five times slower. */
import { createRequire } from 'node:module';
import { schnorr } from '@noble/curves/secp256k1.js';

/** Whether the signature (64 bytes) of the digest (32) was made with the key (32, x only). Never throws. */
type VerifySignature = (sig: Uint8Array, digest: Uint8Array, pubkey: Uint8Array) => boolean;

type Compiled = Pick<typeof import('tiny-secp256k1'), 'verifySchnorr'>;

/** The check in JavaScript: needs nothing, answers false to whatever is out of range. */
export const verifyInJavaScript: VerifySignature = (sig, digest, pubkey) =>
  schnorr.verify(
    Uint8Array.from(sig), // `noble` takes no Buffer
    Uint8Array.from(digest),
    Uint8Array.from(pubkey),
  );

/** The compiled check, or the one in JavaScript when the module cannot be loaded. */
export function loadVerify(load: () => Compiled): VerifySignature {
  try {
    const { verifySchnorr } = load();
    return (sig, digest, pubkey) => {
      try {
        return verifySchnorr(digest, pubkey, sig);
      } catch {
        return false; // it throws at a key that is no point and at a signature out of range
      }
    };
  } catch {
    return verifyInJavaScript;
  }
}

// loaded by `require`, because an `import()` that may fail would have to be awaited at the top of a module
export const verifySignature = loadVerify(() => createRequire(import.meta.url)('tiny-secp256k1'));
