/**
 * What nobody can foresee in a round: a chain of hashes over the reveals of those who proposed its outcomes, and a beacon where
 * the run has one. Nothing that a proposer is free to choose goes in; what is left to it is to propose or to stay silent.
 */
import { fromHex, toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash, u32 } from '../../base/tagged-hash.ts';
import type { Digest } from '../../run/ids.ts';

const TAG = 'nostrain/entropy/1';

/** entropy(0): of the run id alone, so known to everybody from the start. */
export const firstRandomness = (run: Digest): Digest => toHex(taggedHash(TAG, bytes32(run)));

/** What the next entropy is made of. */
export interface RandomnessInputs {
  readonly run: Digest;
  /** The round whose entropy it is. */
  readonly round: number;
  /** Entropy of the round before. */
  readonly entropy: Digest;
  /** Of the outcome of the round before; empty where it has none. */
  readonly reveal: Digest | '';
  /** Randomness of a drand round or hash of a block, 32 bytes in hex; empty where the run has no beacon. */
  readonly beacon: Digest | '';
}

/** entropy(round): each of reveal and beacon is preceded by its length in one byte. */
export function nextRandomness({ run, round, entropy, reveal, beacon }: RandomnessInputs): Digest {
  const fields = [bytes32(run), u32(round), bytes32(entropy), ...sized(reveal), ...sized(beacon)];
  return toHex(taggedHash(TAG, ...fields));
}

function sized(hex: Digest | ''): readonly Uint8Array[] {
  const bytes = hex === '' ? fromHex('')! : bytes32(hex);
  return [Uint8Array.of(bytes.length), bytes];
}
