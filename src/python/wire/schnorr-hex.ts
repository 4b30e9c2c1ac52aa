/** BIP-340 signatures with keys and signatures in hex, as the Python reference's library takes them. In pure JavaScript. */
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { fromHex, toHex } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { verifySignature } from '../../network/event.ts';
import { pureSchnorr } from '../../network/event-crypto.ts';

/**
 * The signature of a message of 32 bytes (an event id), 128 hex digits. Always the same for the same message and key. Throws a
 * ConfigError (`key/invalid`) for a key that is none, a RangeError for a message of another length.
 *
 * @example
 * ```ts
 * import { schnorrSign, schnorrVerify, secretKeyToPublicKey } from 'nostrain/python';
 *
 * const secretKey = '3'.padStart(64, '0');
 * const message = new Uint8Array(32);
 * const signature = schnorrSign(message, secretKey);
 * signature.slice(0, 8); // => 'e907831f'
 * schnorrVerify(message, secretKeyToPublicKey(secretKey), signature); // => true
 * ```
 */
export function schnorrSign(message: Uint8Array, secretKey: string): string {
  const key = keyBytes(secretKey);
  if (message.length !== 32) throw new RangeError(`a message has 32 bytes, not ${message.length}`);
  return toHex(pureSchnorr.sign(message, key));
}

/**
 * Whether a signature (128 hex digits) over 32 bytes holds for a public key (64 hex digits). Anything malformed does not; never
 * throws.
 *
 * @example
 * ```ts
 * import { schnorrVerify } from 'nostrain/python';
 *
 * schnorrVerify(new Uint8Array(32), 'no key', 'no signature'); // => false
 * ```
 */
export const schnorrVerify = (message: Uint8Array, publicKey: string, signature: string): boolean =>
  verifySignature(signature, message, publicKey);

/**
 * The x-only public key of a secret key, both 64 hex digits. Throws a ConfigError (`key/invalid`) for a key that is none.
 *
 * @example
 * ```ts
 * import { secretKeyToPublicKey } from 'nostrain/python';
 *
 * const publicKey = secretKeyToPublicKey('3'.padStart(64, '0'));
 * publicKey; // => 'f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9'
 * ```
 */
export const secretKeyToPublicKey = (secretKey: string): string =>
  toHex(schnorr.getPublicKey(keyBytes(secretKey)));

function keyBytes(secretKey: string): Uint8Array {
  const key = fromHex(secretKey.trim().toLowerCase());
  if (key !== undefined && secp256k1.utils.isValidSecretKey(key)) return key;
  throw new ConfigError('key/invalid', 'this text is not a secret key', {
    hint: 'a key is 64 hex digits; `createSecretKey` of nostrain/node makes one',
  });
}
