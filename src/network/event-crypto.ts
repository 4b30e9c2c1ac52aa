/** Ports for hashing, signing and verifying events, with pure JavaScript defaults; a platform may pass faster ones. */
import { schnorr } from '@noble/curves/secp256k1.js';
import { utf8 } from '../base/bytes.ts';
import { sha256 } from '../base/hash.ts';

export type Sha256 = (bytes: Uint8Array) => Uint8Array;

/** Returns the SHA-256 of a text in UTF-8; a platform may avoid the copy into bytes. */
export type Sha256Text = (text: string) => Uint8Array;

/** BIP-340 signatures over messages of 32 bytes. */
export interface Schnorr {
  /** Returns false for malformed input; never throws. */
  verify(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean;
  /** Signs with 32 zero bytes of auxiliary randomness: the same message always gets the same signature. */
  sign(message: Uint8Array, secretKey: Uint8Array): Uint8Array;
}

/** Functions that hash, sign and verify events; `nativeCrypto` of `nostrain/node` is compiled. */
export interface EventCrypto {
  readonly sha256Text: Sha256Text;
  readonly schnorr: Schnorr;
}

const NO_RANDOMNESS = new Uint8Array(32);

/** Reports whether these are the lengths of a signature, a message and a key. */
export const haveLengths = (
  signature: Uint8Array,
  message: Uint8Array,
  publicKey: Uint8Array,
): boolean => signature.length === 64 && message.length === 32 && publicKey.length === 32;

/** Schnorr signatures by @noble/curves: runs everywhere, and is the reference that faster ones are tested against. */
export const pureSchnorr: Schnorr = {
  verify: (signature, message, publicKey) =>
    haveLengths(signature, message, publicKey) && schnorr.verify(signature, message, publicKey),
  sign: (message, secretKey) => schnorr.sign(message, secretKey, NO_RANDOMNESS),
};

/** Pure JavaScript throughout. */
export const pureCrypto: EventCrypto = {
  sha256Text: (text) => sha256(utf8(text)),
  schnorr: pureSchnorr,
};
