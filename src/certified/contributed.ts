/** What a worker contributed in its last rounds: what it takes to give it back when the run turns out to have gone another way. */
import type { Outcome } from '../run/outcome.ts';
import { idOf, type Sent } from '../worker/state.ts';
import type { Certified } from './chain-state.ts';
import type { Contributed } from './events.ts';

/** Rounds that are remembered at most, however deep a run lets its workers go back: each is a payload on disk. */
const MOST_KEPT = 64;

/** Whether an outcome says anything of it. */
export function isSettledBy(sent: Sent, { accepted, rejected }: Outcome): boolean {
  const id = idOf(sent);
  return [...accepted, ...rejected].some(({ manifest }) => manifest === id);
}

/** The list after a round: `now` was sent in it, `lost` is what it gave back of the round before. */
export function contributedAfter(
  known: readonly Contributed[],
  { round, parent, modelRoot: base, ledger, spec }: Certified,
  now: Pick<Contributed, 'sent' | 'isOut'> | undefined,
  lost: Sent | undefined,
): readonly Contributed[] {
  const id = lost && idOf(lost);
  const before = known.map((each) =>
    id !== undefined && idOf(each.sent) === id ? { ...each, isOut: false } : each,
  );
  const past = { round, parent, base, ledger };
  const kept = Math.min(Math.max(1, spec.timing.reorgDepth), MOST_KEPT);
  return [...before, ...(now ? [{ ...now, past }] : [])].slice(-kept);
}
