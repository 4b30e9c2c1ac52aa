/** HPKE (RFC 9180), base mode with X25519, HKDF-SHA256 and AES-256-GCM: one message to the holder of a key. */
import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core';
import { x25519 } from '@noble/curves/ed25519.js';
import { fromHex, toHex } from '../base/bytes.ts';

/** Bytes of a key, of an encapsulated key, and by which a ciphertext is longer than its text. */
const SEAL_KEY_BYTES = 32;
export const TAG_BYTES = 16;

const suite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(),
  kdf: new HkdfSha256(),
  aead: new Aes256Gcm(),
});

/** An X25519 key pair, hex. */
export interface SealKeys {
  readonly publicKey: string;
  readonly secretKey: string;
}

/** What binds a message: `info` to the purpose, `aad` to other data. */
export interface Bound {
  readonly info: Uint8Array;
  readonly aad: Uint8Array;
}

/** An encrypted message with the key that its sender has made for it. */
export interface Envelope {
  readonly encapsulated: Uint8Array;
  readonly ciphertext: Uint8Array;
}

const buffer = (bytes: Uint8Array): ArrayBuffer => Uint8Array.from(bytes).buffer;

/** Returns a new random key pair. */
export async function createSealKeys(): Promise<SealKeys> {
  const { privateKey } = await suite.kem.generateKeyPair();
  const secretKey = toHex(new Uint8Array(await suite.kem.serializePrivateKey(privateKey)));
  return { secretKey, publicKey: sealKeyOf(secretKey) };
}

/** Returns the public key of a secret X25519 key, both hex. */
export const sealKeyOf = (secretKey: string): string =>
  toHex(x25519.getPublicKey(new Uint8Array(keyBytes(secretKey))));

/** Encrypts a message to an X25519 key (hex). Throws a RangeError for a key of another length. */
export async function sealTo(
  publicKey: string,
  message: Uint8Array,
  { info, aad }: Bound,
): Promise<Envelope> {
  const key = await suite.kem.deserializePublicKey(keyBytes(publicKey));
  const sender = await suite.createSenderContext({ recipientPublicKey: key, info: buffer(info) });
  const ciphertext = await sender.seal(buffer(message), buffer(aad));
  return { encapsulated: new Uint8Array(sender.enc), ciphertext: new Uint8Array(ciphertext) };
}

/** Decrypts an envelope; undefined if it is for another key, bound to other data, or changed. */
export async function openFor(
  { secretKey }: Pick<SealKeys, 'secretKey'>,
  { encapsulated, ciphertext }: Envelope,
  { info, aad }: Bound,
): Promise<Uint8Array | undefined> {
  if (encapsulated.length !== SEAL_KEY_BYTES || ciphertext.length < TAG_BYTES) return undefined;
  const recipientKey = await suite.kem.deserializePrivateKey(keyBytes(secretKey));
  try {
    const enc = buffer(encapsulated);
    const recipient = await suite.createRecipientContext({ recipientKey, enc, info: buffer(info) });
    return new Uint8Array(await recipient.open(buffer(ciphertext), buffer(aad)));
  } catch {
    return undefined;
  }
}

function keyBytes(hex: string): ArrayBuffer {
  const bytes = fromHex(hex);
  if (bytes?.length !== SEAL_KEY_BYTES) throw new RangeError('an X25519 key has 32 bytes');
  return buffer(bytes);
}
