/** The fastest hashing and signatures that Node.js offers. */
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
      return false; // a key that is no point, an r or s out of range
    }
  },
  sign: (message, secretKey) => signSchnorr(message, secretKey, NO_RANDOMNESS),
};

/** Compiled hashing and signatures, in place of JavaScript where `crypto` is asked for. */
export const nativeCrypto: EventCrypto = { sha256Text: nativeSha256Text, schnorr: nativeSchnorr };
