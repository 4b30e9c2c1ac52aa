/** The fork-choice rule: decides which of two certified branches of a run to follow, from the branches alone. */
import type { Digest, WorkerId } from '../../run/ids.ts';

/** Certified outcomes after the fork point. */
export interface Branch {
  /** Authors of the branch's commits, from any roster on the branch. */
  readonly committed: readonly WorkerId[];
  /** The recovery epoch in which its first outcome was certified. */
  readonly attempt: number;
  /** How many of its outcomes are final. */
  readonly finals: number;
  /** How many outcomes it has. */
  readonly length: number;
  /** Digest of its first outcome. */
  readonly digest: Digest;
}

/**
 * Reports whether branch `a` is preferred to `b`: more backers from the roster at the fork; then more backers in all,
 * so that one key of a small roster cannot outdo later members; then the lower epoch, more final outcomes, more
 * outcomes, the lower digest.
 */
export function isBetter(roster: readonly WorkerId[], a: Branch, b: Branch): boolean {
  const [backersA, backersB] = [backers(roster, a), backers(roster, b)];
  if (backersA !== backersB) return backersA > backersB;
  const [allA, allB] = [new Set(a.committed).size, new Set(b.committed).size];
  if (allA !== allB) return allA > allB;
  if (a.attempt !== b.attempt) return a.attempt < b.attempt;
  if (a.finals !== b.finals) return a.finals > b.finals;
  if (a.length !== b.length) return a.length > b.length;
  return a.digest < b.digest;
}

function backers(roster: readonly WorkerId[], { committed }: Branch): number {
  const keys = new Set(committed);
  return roster.filter((key) => keys.has(key)).length;
}
