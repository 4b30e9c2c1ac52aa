/** Proposing: the proposer of a view repeats the outcome that a quorum prepared last; only if there is none it makes a new one. */
import type { EventId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import type { Proposal, Signed } from '../../run/vote.ts';
import { committeeOfViewChanges } from './committees.ts';
import { highestClaim } from './justify.ts';
import { checkOf, isVoidTime, mayPrepare } from './prepare.ts';
import { chosenViewChanges } from './recovery.ts';
import { ask, hasSigned, isVoting, sign, type Turn, type ViewId } from './round-state.ts';
import { highestPrepared } from './tally.ts';
import { proposerOf } from './views.ts';

export function propose(turn: Turn): boolean {
  const { context, state } = turn;
  if (!isVoting(turn) || hasSigned(state, 'prepare') || hasSigned(state, 'commit')) return false;
  if (proposerOf(context, state) !== context.me) return false;
  const prepared = highestPrepared(turn, state.attempt);
  if (prepared !== null && prepared.attempt === state.attempt) {
    const { view, prepares } = prepared;
    const before = proposalById(turn, prepared.proposal);
    return (
      before !== undefined && repropose(turn, before, prepared, view, prepares, before.ballots)
    );
  }
  const ballots = state.attempt === 0 ? [] : chosenViewChanges(turn);
  if (ballots === undefined) return false;
  const claim = highestClaim(turn, ballots);
  if (claim === 'unproven') return false;
  if (claim === undefined) return proposeNew(turn, ballots);
  const before = proposalById(turn, claim.proposal);
  return before !== undefined && repropose(turn, before, claim, -1, [], ballots);
}

const proposalById = ({ state }: Turn, id: EventId): Signed<Proposal> | undefined =>
  state.votes.find((vote): vote is Signed<Proposal> => vote.type === 'proposal' && vote.id === id);

/** Proposes an outcome that was prepared before, its bytes unchanged. */
function repropose(
  turn: Turn,
  before: Signed<Proposal>,
  prepared: ViewId,
  justify: number,
  prepares: readonly EventId[],
  ballots: readonly EventId[],
): boolean {
  const check = checkOf(turn, before);
  if (check === undefined || !check.valid || !mayPrepare(turn, before, prepared, check))
    return false;
  const { outcome, digest } = before;
  return signProposal(turn, { outcome, digest, justify, prepares, ballots });
}

/** Proposes a new outcome: asks the caller to compose it, and signs the proposal once the `composed` input is here. */
function proposeNew(turn: Turn, ballots: readonly EventId[]): boolean {
  const { attempt, view, composed, checks } = turn.state;
  if (composed === null || composed.attempt !== attempt || composed.view !== view) {
    const result = isVoidTime(turn) ? 'void' : 'final';
    ask(turn, 'compose', { type: 'compose', attempt, view, result, ballots });
    return false;
  }
  const { outcome, digest } = composed;
  const check = checks.find((each) => each.digest === digest);
  if (check === undefined || !mayPrepare(turn, composed, undefined, check)) return false;
  if (attempt > 0 && highestClaim(turn, outcome.ballots) !== undefined) return false;
  const { ballots: listed } = outcome;
  return signProposal(turn, { outcome, digest, justify: -1, prepares: [], ballots: listed });
}

function signProposal(
  turn: Turn,
  body: Pick<Proposal, 'digest' | 'justify' | 'prepares' | 'ballots'> & { outcome: Outcome },
): boolean {
  const { context, state } = turn;
  const { attempt, view } = state;
  const committee =
    attempt === 0 ? context.committee : committeeOfViewChanges(turn, attempt, body.ballots);
  if (committee === undefined) return false;
  const { run, round, parent } = context;
  const { ctx } = committee;
  return sign(turn, {
    type: 'proposal',
    step: 'prepare',
    run,
    round,
    attempt,
    parent,
    ctx,
    view,
    ...body,
  });
}
