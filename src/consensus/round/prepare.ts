/** The prepare phase: at most one prepare per view, for that view's proposal. Safety rests on the locking rule in `mayPrepare`. */
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
  // a member that committed in this view has already seen a quorum of prepares
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
    type: 'vote',
    step: 'prepare',
    run,
    round,
    attempt,
    parent,
    ctx,
    view,
    digest,
    justify,
  });
}

/** The view in which a member locked on this outcome saw it prepared; it states that even where the proposer does not. */
const ownJustification = ({ state: { lock } }: Turn, { digest, attempt }: Proposal): number =>
  lock?.digest === digest && lock.attempt === attempt ? lock.view : -1;

/**
 * The locking rule. A member that committed is locked: it prepares another outcome only when a quorum prepared that in a later
 * view. An unlocked member prepares any outcome with a quorum of prepares, and new outcomes that it finds acceptable.
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

/** Whether a void outcome is acceptable: the round took too many views, or no contribution arrived in time. */
export const isVoidTime = ({ state, context }: Turn): boolean =>
  state.view >= context.timing.voidView || state.closed?.empty === true;

/** The validity check of a proposal's outcome; requested when there is none. */
export function checkOf(turn: Turn, { digest, outcome }: Signed<Proposal>): Check | undefined {
  const check = turn.state.checks.find((each) => each.digest === digest);
  if (check === undefined) ask(turn, `check ${digest}`, { type: 'check', digest, outcome });
  return check;
}
