/**
 * Who may contribute to a round where more would come than are useful: a sample of the roster, drawn anew in each round from its randomness,
 * so that what a round costs each worker does not grow with the roster. Everyone with the same ledger draws the same keys.
 */
import { bytes32, taggedHash, u32 } from '../../base/tagged-hash.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';
import { roundName } from '../../run/round-name.ts';
import { bestOf, createCandidates, drawLots } from './weighted.ts';

export interface SampleRules {
  readonly run: Digest;
  /** Keys drawn for each round; 0 or absent draws all. */
  readonly contributors?: number;
}

/** A draw hashes each key, and every contribution of a round asks for it. */
const draws = new WeakMap<Ledger, ReadonlySet<WorkerId>>();

/** The keys that may contribute to the round of this ledger; null where all of its roster may. Throws without its entropy. */
export function drawnOf(rules: SampleRules, ledger: Ledger): ReadonlySet<WorkerId> | null {
  const { run, contributors = 0 } = rules;
  const { members, round, entropy } = ledger;
  if (contributors === 0 || members.length <= contributors) return null;
  if (entropy === null) throw new RangeError(`no entropy in ${roundName(round)}`);
  const known = draws.get(ledger);
  if (known?.size === contributors) return known;
  const seed = taggedHash('nostrain/contributors/1', bytes32(run), u32(round), bytes32(entropy));
  const pool = createCandidates(members.map(({ key }) => ({ key, weight: 1n })));
  const drawn = new Set(bestOf(drawLots(pool, seed), 0, contributors).map(({ key }) => key));
  draws.set(ledger, drawn);
  return drawn;
}

/**
 * The last final round that a member counts as seen in, when one ends for which it was not drawn: as many of the last ones as before
 * have missed it. So nobody leaves for silence in rounds that asked nothing of it.
 */
export function seenUndrawn(
  { lastSeen, joined }: { readonly lastSeen: number; readonly joined: number },
  finals: readonly number[],
): number {
  const from = Math.max(lastSeen + 1, joined);
  return finals.find((final) => final >= from) ?? lastSeen;
}
