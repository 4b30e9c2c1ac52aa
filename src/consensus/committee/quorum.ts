/** How many of a committee decide, and for how much each of them counts. */
import type { Committee } from '../../run/committee.ts';
import type { WorkerId } from '../../run/ids.ts';

/** `bft`: two thirds and one, against liars. `cft`: half and one, against crashes alone; for friends. */
export type QuorumRule = 'bft' | 'cft';

/** k: seats that decide among `seats`. */
export const quorumOf = (rule: QuorumRule, seats: number): number =>
  rule === 'bft' ? Math.floor((2 * seats) / 3) + 1 : Math.floor(seats / 2) + 1;

/**
 * Stakes as they count in a committee: nobody for more than K - k + 1 seats' share of the whole. So much is what blocks a
 * quorum, and a key with that much stake may do so; more would only take the say from the others.
 */
export function cappedStakes(stakes: readonly bigint[], quorum: number): readonly bigint[] {
  const seats = BigInt(stakes.length);
  const blocking = seats - BigInt(quorum) + 1n;
  // the largest cap c with c * K <= blocking * total of min(stake, c); those that fit are 0..c without a gap
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

/** Whether these signers decide: k seats, and k of K parts of the capped stake. Who has no seat and who signs twice adds nothing. */
export function hasQuorum(committee: Committee, signers: Iterable<WorkerId>): boolean {
  const { members, weights, size, quorum } = committee;
  const signed = new Set(signers);
  const theirs = weights.filter((_, seat) => signed.has(members[seat]!));
  if (theirs.length < quorum) return false;
  return total(theirs) * BigInt(size) >= BigInt(quorum) * total(weights);
}
