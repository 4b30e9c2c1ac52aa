/** The phases of a view in the round machine: propose, prepare under the locking rule, commit, decide. */
import type { EventId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import { withFeatures } from '../../run/spec/features.ts';
import type { Proposal, Signed } from '../../run/vote.ts';
import {
  type Count,
  committeeOfViewChanges,
  counts,
  findCommittee,
  highestClaim,
  highestPrepared,
  idsOf,
  justificationOf,
  proposalOf,
  quorumVotes,
} from './quorums.ts';
import {
  ask,
  type Check,
  change,
  hasSigned,
  isAfter,
  isVoting,
  sign,
  type Turn,
  type ViewId,
} from './round-state.ts';
import { chosenViewChanges, proposerOf } from './views.ts';

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

/** The view in which this locked member saw the outcome prepared; it says so even if the proposer does not. */
const ownJustification = ({ state: { lock } }: Turn, { digest, attempt }: Proposal): number =>
  lock?.digest === digest && lock.attempt === attempt ? lock.view : -1;

/**
 * The locking rule. A member that committed prepares another outcome only if a quorum prepared that in a later view.
 * Others prepare any outcome with a quorum of prepares, and acceptable new ones.
 */
function mayPrepare(
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
const isVoidTime = ({ state, context }: Turn): boolean =>
  state.view >= context.timing.voidView || state.closed?.empty === true;

/** The validity check of a proposal's outcome; requested when there is none. */
function checkOf(turn: Turn, { digest, outcome }: Signed<Proposal>): Check | undefined {
  const check = turn.state.checks.find((each) => each.digest === digest);
  if (check === undefined) ask(turn, `check ${digest}`, { type: 'check', digest, outcome });
  return check;
}

/** At most once per view: stores the lock on disk, then sends the commit. */
export function commit(turn: Turn): boolean {
  const { context, state } = turn;
  if (!isVoting(turn) || hasSigned(state, 'commit')) return false;
  const current = state.votes.filter((v) => v.view === state.view && v.attempt === state.attempt);
  for (const count of counts(current, 'prepare')) {
    const quorum = quorumVotes(turn, count);
    if (quorum === undefined) continue;
    const { ctx, digest, attempt, view } = count;
    if (!findCommittee(turn, attempt, ctx)?.members.includes(context.me)) continue;
    const proposal = bodyOf(turn, count);
    const check = proposal && checkOf(turn, proposal);
    if (proposal === undefined || !check?.valid) continue;
    change(turn, {
      lock: { attempt, view, ctx, digest, proposal: proposal.id, prepares: idsOf(quorum) },
    });
    const { run, round, parent } = context;
    const { unlisted, features } = check;
    return sign(turn, {
      type: 'vote',
      step: 'commit',
      justify: -1,
      run,
      round,
      attempt,
      parent,
      ctx,
      view,
      digest,
      unlisted,
      ...withFeatures(features),
    });
  }
  return false;
}

/** Looks for a certificate (a quorum of commits) among the votes received so far. */
export function finalize(turn: Turn): boolean {
  if (!turn.heard) return false;
  turn.heard = false;
  for (const count of counts(turn.state.votes, 'commit')) {
    const quorum = quorumVotes(turn, count);
    const proposal = quorum && bodyOf(turn, count);
    if (proposal && decide(turn, { ...count, votes: quorum }, proposal)) return true;
  }
  return false;
}

/** Adopts a certificate, or reports that it conflicts with the first; true when it changed the state. */
function decide(turn: Turn, count: Count, { id, outcome }: Signed<Proposal>): boolean {
  const { decided, conflicts } = turn.state;
  const { attempt, view, ctx, digest, votes } = count;
  if (decided !== null) {
    if (decided.digest === digest || conflicts.includes(digest)) return false;
    const { round } = turn.context;
    const expected = decided.digest;
    const refusal = { code: 'conflicting-finalize', round, expected, got: digest } as const;
    turn.effects.push({ type: 'refused', refusal });
    return change(turn, { conflicts: [...conflicts, digest] });
  }
  const commits = idsOf(votes);
  const certificate = { attempt, view, ctx, digest, proposal: id, commits };
  turn.effects.push({ type: 'persist' }, { type: 'finalized', outcome, certificate });
  return change(turn, { decided: certificate });
}

/** A proposal that carries the outcome voted for; requested when this member has none. */
function bodyOf(turn: Turn, { ctx, digest }: Count): Signed<Proposal> | undefined {
  const proposal = proposalOf(turn, ctx, digest);
  if (proposal === undefined) {
    ask(turn, `want ${digest}`, { type: 'want', what: 'outcome', digest });
  }
  return proposal;
}
