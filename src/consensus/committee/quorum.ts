/** Quorum sizes, and the stake that each committee member's vote carries. */
import type { Committee } from '../../run/committee.ts';
import type { WorkerId } from '../../run/ids.ts';

/** `bft`: more than two thirds, tolerates Byzantine members. `cft`: more than half, tolerates crashes only. */
export type QuorumRule = 'bft' | 'cft';

/** Returns k, the number of votes that decide in a committee of `seats`. */
export const quorumOf = (rule: QuorumRule, seats: number): number =>
  rule === 'bft' ? Math.floor((2 * seats) / 3) + 1 : Math.floor(seats / 2) + 1;

/**
 * Caps each stake at the blocking share, (K - k + 1) / K of the capped total: a key with that stake can block a quorum,
 * but can never decide alone.
 */
export function cappedStakes(stakes: readonly bigint[], quorum: number): readonly bigint[] {
  const seats = BigInt(stakes.length);
  const blocking = seats - BigInt(quorum) + 1n;
  // binary search for the largest cap c with c * K <= blocking * sum of min(stake, c), which holds for all smaller caps
  let fits = 0n;
  let tooMuch = total(stakes) + 1n;
  while (tooMuch - fits > 1n) {
    const cap = (fits + tooMuch) >> 1n;
    if (cap * seats <= blocking * total(capped(stakes, cap))) fits = cap;
    else tooMuch = cap;
  }
  return capped(stakes, fits);
}

const capped = (stakes: readonly bigint[], cap: bigint): readonly bigint[] =>
  stakes.map((stake) => (stake < cap ? stake : cap));

const total = (stakes: readonly bigint[]): bigint => stakes.reduce((sum, each) => sum + each, 0n);

/** Reports whether the signers hold k seats and k/K of the capped stake. Non-members and repeats are ignored. */
export function hasQuorum(committee: Committee, signers: Iterable<WorkerId>): boolean {
  const { members, weights, size, quorum } = committee;
  const signed = new Set(signers);
  const theirs = weights.filter((_, seat) => signed.has(members[seat]!));
  if (theirs.length < quorum) return false;
  return total(theirs) * BigInt(size) >= BigInt(quorum) * total(weights);
}
