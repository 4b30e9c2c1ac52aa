/** The fork-choice rule: which of two certified branches of a run to follow. It depends on the branches alone, never on arrival times. */
import type { Digest, WorkerId } from '../../run/ids.ts';

/** Certified outcomes after the fork point. */
export interface Branch {
  /** Authors of the branch's commits; keys outside the roster at the fork point are not counted. */
  readonly committed: readonly WorkerId[];
  /** The recovery epoch in which its first outcome was certified. */
  readonly attempt: number;
  /** How many outcomes it has. */
  readonly length: number;
  /** Digest of its first outcome. */
  readonly digest: Digest;
}

/** Prefers more backers from the roster at the fork point, then the lower recovery epoch, then more outcomes, then the lower digest. */
export function isBetter(roster: readonly WorkerId[], a: Branch, b: Branch): boolean {
  const [backersA, backersB] = [backers(roster, a), backers(roster, b)];
  if (backersA !== backersB) return backersA > backersB;
  if (a.attempt !== b.attempt) return a.attempt < b.attempt;
  if (a.length !== b.length) return a.length > b.length;
  return a.digest < b.digest;
}

function backers(roster: readonly WorkerId[], { committed }: Branch): number {
  const keys = new Set(committed);
  return roster.filter((key) => keys.has(key)).length;
}
