/** What a worker contributed in its last rounds: what it takes to give it back when the run turns out to have gone another way. */
import type { Outcome } from '../../run/outcome.ts';
import { idOf } from '../settle.ts';
import type { Contributed, Sent, WorkerState } from '../state.ts';
import type { Certified } from './chain-state.ts';

/** Rounds that are remembered at most, however deep a run lets its workers go back: each is a payload on disk. */
const MOST_KEPT = 64;

/** Whether an outcome says anything of it. */
export const isSettledBy = (sent: Sent, { accepted, rejected }: Outcome): boolean =>
  [...accepted, ...rejected].some(({ manifest }) => manifest === idOf(sent));

/** The list after a round: with what was sent in it, and without what a later outcome gave back. */
export function contributedAfter(
  { contributed = [], sent, pending }: WorkerState,
  { round, parent, modelRoot: base, ledger, spec }: Certified,
  outcome: Outcome,
  stillPending: Sent | undefined,
): readonly Contributed[] {
  const isBack = (each: Contributed): boolean =>
    pending !== undefined && idOf(each.sent) === idOf(pending) && !isSettledBy(pending, outcome);
  const known = contributed.map((each) => (isBack(each) ? { ...each, isOut: false } : each));
  const isOut = sent !== undefined && (stillPending === sent || isSettledBy(sent, outcome));
  const now = sent ? [{ sent, past: { round, parent, base, ledger }, isOut }] : [];
  const kept = Math.min(Math.max(1, spec.timing.reorgDepth), MOST_KEPT);
  return [...known, ...now].slice(-kept);
}
