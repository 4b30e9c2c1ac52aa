/** Preparing: once per view, for the proposal of that view. The one rule everything else rests on is `mayPrepare`. */
import type { Proposal, Signed } from '../../run/vote.ts';
import { justificationOf } from './justify.ts';
import {
  ask,
  type Check,
  hasSigned,
  isAfter,
  isVoting,
  sign,
  type Turn,
  type ViewId,
} from './round-state.ts';
import { proposerOf } from './views.ts';

export function prepare(turn: Turn): boolean {
  const { context, state } = turn;
  // who committed in this view already saw a quorum of prepares; one more says nothing
  if (!isVoting(turn) || hasSigned(state, 'prepare') || hasSigned(state, 'commit')) return false;
  const proposer = proposerOf(context, state);
  for (const vote of state.votes) {
    if (vote.type !== 'proposal' || vote.key !== proposer) continue;
    if (vote.view !== state.view || vote.attempt !== state.attempt) continue;
    if (tryPrepare(turn, vote)) return true;
  }
  return false;
}

function tryPrepare(turn: Turn, proposal: Signed<Proposal>): boolean {
  const justification = justificationOf(turn, proposal);
  if (justification === undefined || !justification.committee.members.includes(turn.context.me))
    return false;
  const check = checkOf(turn, proposal);
  if (check === undefined || !check.valid) return false;
  if (!mayPrepare(turn, proposal, justification.prepared, check)) return false;
  const { run, round, attempt, parent, ctx, view, digest } = proposal;
  const justify = Math.max(proposal.justify, ownJustification(turn, proposal));
  return sign(turn, {
    ...{ type: 'vote', step: 'prepare' },
    ...{ run, round, attempt, parent, ctx, view, digest, justify },
  });
}

/** Whoever is locked on the outcome knows where it was prepared, and says so even where the proposer does not. */
const ownJustification = ({ state: { lock } }: Turn, { digest, attempt }: Proposal): number =>
  lock?.digest === digest && lock.attempt === attempt ? lock.view : -1;

/**
 * A member that committed is locked: it follows another outcome only when that was prepared later than its own. One that is
 * not locked follows what was prepared before, and of new outcomes those it accepts.
 */
export function mayPrepare(
  turn: Turn,
  { digest, outcome }: Pick<Proposal, 'digest' | 'outcome'>,
  prepared: ViewId | undefined,
  check: Check,
): boolean {
  const { lock } = turn.state;
  if (lock?.digest === digest) return true;
  if (lock !== null) return prepared !== undefined && !isAfter(lock, prepared);
  if (prepared !== undefined) return true;
  return check.acceptable && (outcome.result === 'final' || isVoidTime(turn));
}

/** Whether a void outcome will do: the round took long, or nothing arrived in time. */
export const isVoidTime = ({ state, context }: Turn): boolean =>
  state.view >= context.timing.voidView || state.closed?.empty === true;

/** What is known about a proposal's outcome; asked for when nothing is. */
export function checkOf(turn: Turn, { digest, outcome }: Signed<Proposal>): Check | undefined {
  const check = turn.state.checks.find((each) => each.digest === digest);
  if (check === undefined) ask(turn, `check ${digest}`, { type: 'check', digest, outcome });
  return check;
}
