/**
 * The run root: a Merkle tree over the digests of a run's outcomes, one leaf per round. A short proof shows that one round
 * belongs to a run without the other rounds. A digest covers run, round, accepted manifests, result and the roots after it.
 */
import { fromHex, isHex32, toHex } from '../base/bytes.ts';
import { HASH_BYTES, merklePath, merkleTree, pathLength, rootFrom } from '../base/merkle.ts';
import { bytes32 } from '../base/tagged-hash.ts';
import type { Digest } from '../run/ids.ts';

/** Merkle proof that an outcome digest is that of `round` in a run of `rounds` rounds. */
export interface RoundProof {
  readonly round: number;
  readonly rounds: number;
  readonly digest: Digest;
  /** Sibling hashes, from the leaf to the top. */
  readonly path: readonly Digest[];
}

/** The root over the outcome digests of all rounds, from round 0. */
export const runRoot = (digests: readonly Digest[]): Digest => treeOf(digests).root;

/**
 * That the outcome of one round is in a run, without the others: a path of hashes up to the run root.
 *
 * @example
 * ```ts
 * import { isRoundOf, proveRound, runRoot } from 'nostrain/certified';
 *
 * const digests = ['a', 'b', 'c'].map((digit) => digit.repeat(64));
 * const proof = proveRound(digests, 1);
 * isRoundOf(runRoot(digests), proof); // => true
 * isRoundOf(runRoot(digests.slice(1)), proof); // => false
 * ```
 */
export function proveRound(digests: readonly Digest[], round: number): RoundProof {
  const path = merklePath(treeOf(digests), round).map(toHex);
  return { round, rounds: digests.length, digest: digests[round]!, path };
}

/**
 * Whether the proof leads to this run root; false for anything malformed.
 *
 * @example
 * ```ts
 * import { isRoundOf, runRoot } from 'nostrain/certified';
 *
 * const digest = 'a'.repeat(64);
 * const alone = { round: 0, rounds: 1, digest, path: [] };
 * isRoundOf(runRoot([digest]), alone); // => true
 * isRoundOf(runRoot([digest]), { ...alone, rounds: 2 }); // => false
 * ```
 */
export function isRoundOf(root: Digest, { round, rounds, digest, path }: RoundProof): boolean {
  const isPlace = Number.isSafeInteger(rounds) && Number.isSafeInteger(round) && round >= 0;
  if (!isPlace || round >= rounds || !isHex32(digest) || !path.every(isHex32)) return false;
  if (path.length !== pathLength(round, rounds)) return false;
  const extent = { count: rounds, bytes: rounds * HASH_BYTES };
  return (
    rootFrom(
      bytes32(digest),
      round,
      path.map((hash) => fromHex(hash)!),
      extent,
    ) === root
  );
}

const treeOf = (digests: readonly Digest[]) => merkleTree(digests.map(bytes32));
