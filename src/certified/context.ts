/** What the round machine must know of a round: it follows from the certified state, but for this worker's own clock. */
import { hasQuorum } from '../consensus/committee/quorum.ts';
import type { RoundContext } from '../consensus/round/round-state.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Electorate } from './electorate.ts';
import type { Chain } from './history.ts';

/** The part of a context that is this worker's own. */
export interface Own {
  readonly me: WorkerId;
  /** Time of the outcome before, in milliseconds; nobody began the round earlier. */
  readonly since: number;
  /** How long manifests took to arrive in rounds before, in milliseconds. */
  readonly delays: readonly number[];
}

export function contextOf(
  { spec, run, round, parent }: Chain,
  electorate: Electorate,
  own: Own,
): RoundContext {
  const voidView = Math.max(1, Math.min(spec.timing.voidView, electorate.committee.size));
  const timing = { ...spec.timing, voidView };
  return { ...own, ...electorate, run, round, parent, timing, hasQuorum };
}
