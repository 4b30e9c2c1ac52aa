/** Signatures that cost next to nothing: a hash keyed with the public key. No code in a world forges them. */
import { createSigner, type EventCrypto, type Signer } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import type { Policy } from '../../relay/policies.ts';
import { keyOf, secretOf } from '../support/swarm.ts';

const publicKeys = new Map<string, Uint8Array>();
const signers = new Map<number, Signer>();

/** A worker's signer; the same key as its real one. */
export function keyedSignerOf(index: number): Signer {
  const known = signers.get(index);
  if (known) return known;
  publicKeys.set(nameOf(secretOf(index)), Buffer.from(keyOf(index), 'hex'));
  const signer = createSigner(secretOf(index), keyedCrypto);
  signers.set(index, signer);
  return signer;
}

const nameOf = (secret: Uint8Array): string => Buffer.from(secret).toString('latin1');

const PRIME = 0x01000193;

function keyedHash(message: Uint8Array, key: Uint8Array): Uint8Array {
  const out = new Uint8Array(64);
  let hash = 0x811c9dc5;
  for (let i = 0; i < 32; i++) hash = Math.imul(hash ^ message[i]! ^ (key[i]! << 8), PRIME);
  for (let i = 0; i < 64; i++) {
    hash = Math.imul(hash ^ (hash >>> 15) ^ message[i & 31]!, PRIME);
    out[i] = hash >>> 11;
  }
  return out;
}

export const keyedCrypto: EventCrypto = {
  sha256Text: nativeCrypto.sha256Text,
  schnorr: {
    verify(signature, message, publicKey) {
      const right = keyedHash(message, publicKey);
      return signature.length === 64 && right.every((byte, i) => byte === signature[i]);
    },
    sign: (message, secret) => keyedHash(message, publicKeys.get(nameOf(secret))!),
  },
};

/** Refuses events with wrong signatures, as a relay does with real ones. */
export const keyedSignature: Policy = ({ id, pubkey, sig }) => {
  const [digest, key, signature] = [id, pubkey, sig].map((hex) => Buffer.from(hex, 'hex'));
  return keyedCrypto.schnorr.verify(signature!, digest!, key!)
    ? undefined
    : { prefix: 'invalid', code: 'wrong-signature', message: 'signature does not verify' };
};
