/** Schnorr signatures over secp256k1 (BIP-340), checked by compiled code where it loads, else in JavaScript, about five times slower. */
import { schnorr } from '@noble/curves/secp256k1.js';

/** Whether the signature (64 bytes) of the digest (32) was made with the key (32, x only). Never throws. */
export type VerifySignature = (sig: Uint8Array, digest: Uint8Array, pubkey: Uint8Array) => boolean;

/** The check in JavaScript: needs nothing, answers false to whatever is out of range. */
export const verifyInJavaScript: VerifySignature = (sig, digest, pubkey) =>
  schnorr.verify(
    Uint8Array.from(sig), // `noble` takes no Buffer
    Uint8Array.from(digest),
    Uint8Array.from(pubkey),
  );

/** The compiled check, or the one in JavaScript when the module cannot be loaded. */
export async function loadVerify(
  load: () => Promise<Pick<typeof import('tiny-secp256k1'), 'verifySchnorr'>>,
): Promise<VerifySignature> {
  try {
    const { verifySchnorr } = await load();
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

export const verifySignature = await loadVerify(() => import('tiny-secp256k1'));
