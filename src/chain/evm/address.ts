/** The EVM account that belongs to a Nostr key: both are names of one point on secp256k1. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { concatBytes, fromHex } from '../../base/bytes.ts';
import type { WorkerId } from '../../run/ids.ts';

const EVEN = Uint8Array.of(2);

/** The 20 bytes of the account whose point is the key's one with even y; undefined when the key is on no point of the curve. */
export function evmAddress(key: WorkerId): Uint8Array | undefined {
  const x = fromHex(key);
  if (x?.length !== 32) return undefined;
  try {
    const point = secp256k1.Point.fromBytes(concatBytes(EVEN, x)).toBytes(false);
    return keccak_256(point.subarray(1)).subarray(12);
  } catch {
    return undefined;
  }
}
