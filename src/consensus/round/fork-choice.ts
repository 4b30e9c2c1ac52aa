/** Which of two branches of a run's history to be on: a function of the branches alone, never of when they were seen. */
import type { Digest, WorkerId } from '../../run/ids.ts';

/** Outcomes after a common one, each with a certificate. */
export interface Branch {
  /** Whose commits the branch has; keys outside the roster at the fork count for nothing. */
  readonly committed: readonly WorkerId[];
  /** The attempt in which its first outcome was certified. */
  readonly attempt: number;
  /** How many outcomes it has. */
  readonly length: number;
  /** Digest of its first outcome. */
  readonly digest: Digest;
}

/** More of the roster at the fork committed to it; then fewer recovery attempts; then longer; then the lower digest. */
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
