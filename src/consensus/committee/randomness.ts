/**
 * Round randomness (the field `entropy`): a hash chain over the reveals of past proposers and, where the run has one, the
 * randomness beacon. A proposer cannot choose any input; its only bias is to withhold its proposal.
 */
import { fromHex, toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash, u32 } from '../../base/tagged-hash.ts';
import type { Digest } from '../../run/ids.ts';

const TAG = 'nostrain/entropy/1';

/** Randomness of round 0: derived from the run id alone, so everybody knows it before the run starts. */
export const firstRandomness = (run: Digest): Digest => toHex(taggedHash(TAG, bytes32(run)));

/** Inputs of the next round's randomness. */
export interface RandomnessInputs {
  readonly run: Digest;
  /** The round to compute it for. */
  readonly round: number;
  /** Randomness of the round before. */
  readonly entropy: Digest;
  /** Reveal in the outcome of the round before; empty where that has none. */
  readonly reveal: Digest | '';
  /** drand randomness or block hash, 32 bytes in hex; empty in a run without beacon. */
  readonly beacon: Digest | '';
}

/** Randomness of a round after the first; reveal and beacon are each preceded by their length in one byte. */
export function nextRandomness({ run, round, entropy, reveal, beacon }: RandomnessInputs): Digest {
  const fields = [bytes32(run), u32(round), bytes32(entropy), ...sized(reveal), ...sized(beacon)];
  return toHex(taggedHash(TAG, ...fields));
}

function sized(hex: Digest | ''): readonly Uint8Array[] {
  const bytes = hex === '' ? fromHex('')! : bytes32(hex);
  return [Uint8Array.of(bytes.length), bytes];
}
