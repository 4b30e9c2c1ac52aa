/** Hashing and Schnorr signatures in native code, faster than the JavaScript versions. */
import { signSchnorr, verifySchnorr } from 'tiny-secp256k1';
import { type EventCrypto, haveLengths, type Schnorr } from '../../network/event-crypto.ts';
import { nativeSha256Text } from './sha256.ts';

const NO_RANDOMNESS = new Uint8Array(32);

export const nativeSchnorr: Schnorr = {
  verify(signature, message, publicKey) {
    if (!haveLengths(signature, message, publicKey)) return false;
    try {
      return verifySchnorr(message, publicKey, signature);
    } catch {
      return false; // the key is not a point, or r or s is out of range
    }
  },
  sign: (message, secretKey) => signSchnorr(message, secretKey, NO_RANDOMNESS),
};

/** Native hashing and signatures, to pass as `crypto`. */
export const nativeCrypto: EventCrypto = { sha256Text: nativeSha256Text, schnorr: nativeSchnorr };
