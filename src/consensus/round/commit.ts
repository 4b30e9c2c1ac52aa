/** The commit phase: a quorum of prepares in the current view locks a member; a quorum of commits in one view decides the round. */

import type { Digest } from '../../run/ids.ts';
import { withFeatures } from '../../run/spec/features.ts';
import type { Proposal, Signed } from '../../run/vote.ts';
import { committeeBehind, findCommittee, proposalOf } from './committees.ts';
import { checkOf } from './prepare.ts';
import {
  ask,
  type CastVote,
  change,
  hasSigned,
  isVoting,
  type Refusal,
  sign,
  type Turn,
} from './round-state.ts';
import { type Count, counts, idsOf, quorumVotes } from './tally.ts';

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

/** Checks a certificate from another member: the known one is ignored, a different one is a conflict, less than a quorum is refused. */
export function judgeCertificate(
  turn: Turn,
  proposal: Signed<Proposal>,
  commits: readonly CastVote[],
): void {
  const { round } = turn.context;
  const refuse = (refusal: Refusal) => turn.effects.push({ type: 'refused', refusal });
  if (proposal.round !== round) {
    refuse({ code: 'invalid-round', round: proposal.round, current: round });
    return;
  }
  const committee = committeeBehind(turn, proposal);
  const [count, ...others] = counts(commits, 'commit');
  const isOne = count !== undefined && others.length === 0 && count.votes.length === commits.length;
  const isIt = isOne && count.digest === proposal.digest && count.ctx === committee?.ctx;
  const votes = isIt ? quorumVotes(turn, count) : undefined;
  if (count === undefined || votes === undefined) {
    refuse({ code: 'no-quorum', round });
    return;
  }
  const wasKnown = turn.state.conflicts.includes(count.digest);
  decide(turn, { ...count, votes }, proposal);
  if (wasKnown) conflict(turn, count.digest);
}

/** Adopts a certificate; true when it changed the state. */
function decide(turn: Turn, count: Count, { id, outcome }: Signed<Proposal>): boolean {
  const { decided, conflicts } = turn.state;
  const { attempt, view, ctx, digest, votes } = count;
  if (decided !== null) {
    if (decided.digest === digest || conflicts.includes(digest)) return false;
    conflict(turn, digest);
    return change(turn, { conflicts: [...conflicts, digest] });
  }
  const commits = idsOf(votes);
  const certificate = { attempt, view, ctx, digest, proposal: id, commits };
  turn.effects.push({ type: 'persist' }, { type: 'finalized', outcome, certificate });
  return change(turn, { decided: certificate });
}

function conflict({ state, effects }: Turn, got: Digest): void {
  const expected = state.decided?.digest ?? '';
  const refusal: Refusal = { code: 'conflicting-finalize', round: state.round, expected, got };
  effects.push({ type: 'refused', refusal });
}

/** A proposal that carries the outcome voted for; requested when this member has none. */
function bodyOf(turn: Turn, { ctx, digest }: Count): Signed<Proposal> | undefined {
  const proposal = proposalOf(turn, ctx, digest);
  if (proposal === undefined) {
    ask(turn, `want ${digest}`, { type: 'want', what: 'outcome', digest });
  }
  return proposal;
}
