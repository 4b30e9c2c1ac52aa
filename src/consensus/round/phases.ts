/** The phases of a view in the round machine: propose, prepare under the locking rule, commit, decide. */
import type { EventId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import { withFeatures } from '../../run/spec/features.ts';
import { castOf, type Proposal, type Signed } from '../../run/vote.ts';
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
  type Activation,
  ask,
  type Check,
  change,
  hasSigned,
  isAfter,
  isVoting,
  sign,
  type ViewId,
} from './round-state.ts';
import { chosenViewChanges, proposerOf } from './views.ts';

/** Proposes an outcome if this member is the proposer of the view: one that was prepared before, else a new one. */
export function propose(activation: Activation): boolean {
  const { context, state } = activation;
  if (!isVoting(activation) || hasSigned(state, 'prepare') || hasSigned(state, 'commit'))
    return false;
  if (proposerOf(context, state) !== context.me) return false;
  const prepared = highestPrepared(activation, state.attempt);
  if (prepared !== null && prepared.attempt === state.attempt) {
    const { view, prepares } = prepared;
    const before = proposalById(activation, prepared.proposal);
    return (
      before !== undefined &&
      repropose(activation, before, prepared, view, prepares, before.ballots)
    );
  }
  const ballots = state.attempt === 0 ? [] : chosenViewChanges(activation);
  if (ballots === undefined) return false;
  const claim = highestClaim(activation, ballots);
  if (claim === 'unproven') return false;
  if (claim === undefined) return proposeNew(activation, ballots);
  const before = proposalById(activation, claim.proposal);
  return before !== undefined && repropose(activation, before, claim, -1, [], ballots);
}

const proposalById = ({ state }: Activation, id: EventId): Signed<Proposal> | undefined =>
  state.votes.find((vote): vote is Signed<Proposal> => vote.type === 'proposal' && vote.id === id);

/** Proposes an outcome again that was prepared before, with unchanged bytes. */
function repropose(
  activation: Activation,
  before: Signed<Proposal>,
  prepared: ViewId,
  justify: number,
  prepares: readonly EventId[],
  ballots: readonly EventId[],
): boolean {
  const check = checkOf(activation, before);
  if (check === undefined || !check.valid || !mayPrepare(activation, before, prepared, check))
    return false;
  const { outcome, digest } = before;
  return signProposal(activation, { outcome, digest, justify, prepares, ballots });
}

/** Proposes a new outcome: asks the caller to compose it, and signs the proposal after the `composed` input. */
function proposeNew(activation: Activation, ballots: readonly EventId[]): boolean {
  const { attempt, view, composed, checks } = activation.state;
  if (composed === null || composed.attempt !== attempt || composed.view !== view) {
    const result = isVoidTime(activation) ? 'void' : 'final';
    ask(activation, 'compose', { type: 'compose', attempt, view, result, ballots });
    return false;
  }
  const { outcome, digest } = composed;
  const check = checks.find((each) => each.digest === digest);
  if (check === undefined || !mayPrepare(activation, composed, undefined, check)) return false;
  if (attempt > 0 && highestClaim(activation, outcome.ballots) !== undefined) return false;
  const { ballots: listed } = outcome;
  return signProposal(activation, { outcome, digest, justify: -1, prepares: [], ballots: listed });
}

function signProposal(
  activation: Activation,
  body: Pick<Proposal, 'digest' | 'justify' | 'prepares' | 'ballots'> & { outcome: Outcome },
): boolean {
  const { context, state } = activation;
  const { attempt, view } = state;
  const committee =
    attempt === 0 ? context.committee : committeeOfViewChanges(activation, attempt, body.ballots);
  if (committee === undefined) return false;
  const { run, round, parent } = context;
  const { ctx } = committee;
  return sign(activation, {
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

/** Prepares a justified proposal of the view's proposer, at most once per view. */
export function prepare(activation: Activation): boolean {
  const { context, state } = activation;
  // a member that committed in this view has already seen a quorum of prepares
  if (!isVoting(activation) || hasSigned(state, 'prepare') || hasSigned(state, 'commit'))
    return false;
  const proposer = proposerOf(context, state);
  for (const vote of state.votes) {
    if (vote.type !== 'proposal' || vote.key !== proposer) continue;
    if (vote.view !== state.view || vote.attempt !== state.attempt) continue;
    if (tryPrepare(activation, vote)) return true;
  }
  return false;
}

function tryPrepare(activation: Activation, proposal: Signed<Proposal>): boolean {
  const justification = justificationOf(activation, proposal);
  if (
    justification === undefined ||
    !justification.committee.members.includes(activation.context.me)
  )
    return false;
  const check = checkOf(activation, proposal);
  if (check === undefined || !check.valid) return false;
  if (!mayPrepare(activation, proposal, justification.prepared, check)) return false;
  const justify = Math.max(proposal.justify, localJustification(activation, proposal));
  return sign(activation, { type: 'vote', step: 'prepare', ...castOf(proposal), justify });
}

/**
 * Returns the view in which this locked member saw the outcome prepared, else -1. Its prepare carries it even if the
 * proposal does not.
 */
const localJustification = (
  { state: { lock } }: Activation,
  { digest, attempt }: Proposal,
): number => (lock?.digest === digest && lock.attempt === attempt ? lock.view : -1);

/**
 * The locking rule. A member that committed prepares another outcome only if a quorum prepared that one in a later
 * view. Other members prepare any outcome that has a quorum of prepares, and any acceptable new one.
 */
function mayPrepare(
  activation: Activation,
  { digest, outcome }: Pick<Proposal, 'digest' | 'outcome'>,
  prepared: ViewId | undefined,
  check: Check,
): boolean {
  const { lock } = activation.state;
  if (lock?.digest === digest) return true;
  if (lock !== null) return prepared !== undefined && !isAfter(lock, prepared);
  if (prepared !== undefined) return true;
  return check.acceptable && (outcome.result === 'final' || isVoidTime(activation));
}

/** Reports whether a void outcome is acceptable: the round took too many views, or no contribution arrived in time. */
const isVoidTime = ({ state, context }: Activation): boolean =>
  state.view >= context.timing.voidView || state.closed?.empty === true;

/** Returns the validity check of a proposal's outcome; requests it if it is missing. */
function checkOf(activation: Activation, { digest, outcome }: Signed<Proposal>): Check | undefined {
  const check = activation.state.checks.find((each) => each.digest === digest);
  if (check === undefined) ask(activation, `check ${digest}`, { type: 'check', digest, outcome });
  return check;
}

/** Stores the lock on disk, then sends the commit; at most once per view. */
export function commit(activation: Activation): boolean {
  const { context, state } = activation;
  if (!isVoting(activation) || hasSigned(state, 'commit')) return false;
  const current = state.votes.filter((v) => v.view === state.view && v.attempt === state.attempt);
  for (const count of counts(current, 'prepare')) {
    const quorum = quorumVotes(activation, count);
    if (quorum === undefined) continue;
    const { ctx, digest, attempt, view } = count;
    if (!findCommittee(activation, attempt, ctx)?.members.includes(context.me)) continue;
    const proposal = bodyOf(activation, count);
    const check = proposal && checkOf(activation, proposal);
    if (proposal === undefined || !check?.valid) continue;
    change(activation, {
      lock: { attempt, view, ctx, digest, proposal: proposal.id, prepares: idsOf(quorum) },
    });
    const { unlisted, features } = check;
    return sign(activation, {
      type: 'vote',
      step: 'commit',
      justify: -1,
      ...castOf({ ...context, ...count }),
      unlisted,
      ...withFeatures(features),
    });
  }
  return false;
}

/** Looks for a certificate (a quorum of commits) among the votes received so far. */
export function finalize(activation: Activation): boolean {
  if (!activation.heard) return false;
  activation.heard = false;
  for (const count of counts(activation.state.votes, 'commit')) {
    const quorum = quorumVotes(activation, count);
    const proposal = quorum && bodyOf(activation, count);
    if (proposal && decide(activation, { ...count, votes: quorum }, proposal)) return true;
  }
  return false;
}

/** Adopts a certificate, or reports that it conflicts with the first one. Returns true if it changed the state. */
function decide(activation: Activation, count: Count, { id, outcome }: Signed<Proposal>): boolean {
  const { decided, conflicts } = activation.state;
  const { attempt, view, ctx, digest, votes } = count;
  if (decided !== null) {
    if (decided.digest === digest || conflicts.includes(digest)) return false;
    const { round } = activation.context;
    const expected = decided.digest;
    const refusal = { code: 'conflicting-finalize', round, expected, got: digest } as const;
    activation.effects.push({ type: 'refused', refusal });
    return change(activation, { conflicts: [...conflicts, digest] });
  }
  const commits = idsOf(votes);
  const certificate = { attempt, view, ctx, digest, proposal: id, commits };
  activation.effects.push({ type: 'persist' }, { type: 'finalized', outcome, certificate });
  return change(activation, { decided: certificate });
}

/** Returns a proposal that carries the outcome voted for; requests one if this member has none. */
function bodyOf(activation: Activation, { ctx, digest }: Count): Signed<Proposal> | undefined {
  const proposal = proposalOf(activation, ctx, digest);
  if (proposal === undefined) {
    ask(activation, `want ${digest}`, { type: 'want', what: 'outcome', digest });
  }
  return proposal;
}
