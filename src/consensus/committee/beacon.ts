/**
 * Verifies public randomness beacons: a drand round (BLS12-381, key on G2, signatures on G1, unchained), or the hash of
 * a finalized block. The code that fetches them is in src/chain.
 */
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { fromHex, isHex32 } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { sha256, sha256Hex } from '../../base/hash.ts';
import type { BeaconProof } from '../../run/committee.ts';
import type { Digest } from '../../run/ids.ts';

/** A drand chain as a run spec pins it. */
export interface DrandChain {
  /** 96 bytes on G2, in hex. */
  readonly publicKey: string;
  /** Unix seconds of its round 1. */
  readonly genesis: number;
  readonly periodSeconds: number;
}

/** drand's quicknet, with one round every three seconds. */
export const quicknet: DrandChain = {
  publicKey:
    '83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a' +
    '2d1064510d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76' +
    'eae8991ef5ece45a',
  genesis: 1_692_803_367,
  periodSeconds: 3,
};

/** Domain separation tag of drand's signatures on G1. */
const DOMAIN = 'BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_';

/** Returns the first drand round at or after a time in Unix seconds. */
export const drandRoundAt = ({ genesis, periodSeconds }: DrandChain, seconds: number): number =>
  1 + Math.max(0, Math.ceil((seconds - genesis) / periodSeconds));

/** Returns the randomness of a drand round, or a refusal if the signature is not valid for it. */
export function drandRandomness(
  { publicKey }: DrandChain,
  round: number,
  signature: string,
): Result<Digest> {
  const bytes = fromHex(signature);
  if (bytes?.length !== 48) return refuse('bad-beacon', 'signature', 'not 48 bytes in hex');
  return isSigned(publicKey, round, bytes)
    ? ok(sha256Hex(bytes))
    : refuse('bad-beacon', 'signature', `not the signature of drand round ${round}`);
}

/** Which beacon a run uses, and how many seconds after an outcome its value is taken. */
export type BeaconRules =
  | { readonly kind: 'none' }
  | ({ readonly kind: 'drand'; readonly lagSeconds: number } & DrandChain)
  | { readonly kind: 'block'; readonly lagSeconds: number };

/** Returns the beacon value due after `time` (Unix seconds), if the proof is valid. Block hashes are not verified. */
export function beaconValue(rules: BeaconRules, time: number, proof: BeaconProof): Result<Digest> {
  if (rules.kind === 'block' && 'block' in proof) {
    return isHex32(proof.block) ? ok(proof.block) : refuse('bad-beacon', 'block', 'not a hash');
  }
  if (rules.kind !== 'drand' || !('signature' in proof)) {
    return refuse('bad-beacon', 'beacon', `not the proof that beacon ${rules.kind} requires`);
  }
  return drandRandomness(rules, drandRoundAt(rules, time + rules.lagSeconds), proof.signature);
}

/** Reports whether the hex is a valid drand public key: a nonzero point of G2's prime-order group. */
export function isDrandKey(publicKey: string): boolean {
  try {
    const point = bls12_381.G2.Point.fromHex(publicKey);
    point.assertValidity();
    return !point.is0();
  } catch {
    return false;
  }
}

function isSigned(publicKey: string, round: number, signature: Uint8Array): boolean {
  const number = new Uint8Array(8);
  new DataView(number.buffer).setBigUint64(0, BigInt(round));
  const { shortSignatures, G2 } = bls12_381;
  const message = shortSignatures.hash(sha256(number), DOMAIN);
  try {
    return shortSignatures.verify(signature, message, G2.Point.fromHex(publicKey));
  } catch {
    // the bytes are not a point of the group
    return false;
  }
}
