/** Hashing and Schnorr signatures in compiled code, faster than the JavaScript versions. */
import { signSchnorr } from 'tiny-secp256k1';
import { verifySignature } from '../../../relay/signature.ts';
import { type EventCrypto, haveLengths, type Schnorr } from '../../network/event-crypto.ts';
import { nativeSha256Text } from './sha256.ts';

const NO_RANDOMNESS = new Uint8Array(32);

export const nativeSchnorr: Schnorr = {
  verify: (signature, message, publicKey) =>
    haveLengths(signature, message, publicKey) && verifySignature(signature, message, publicKey),
  sign: (message, secretKey) => signSchnorr(message, secretKey, NO_RANDOMNESS),
};

/** Native hashing and signatures, to pass as `crypto`. */
export const nativeCrypto: EventCrypto = { sha256Text: nativeSha256Text, schnorr: nativeSchnorr };
