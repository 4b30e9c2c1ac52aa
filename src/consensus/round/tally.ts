/** Counts votes: which outcome has a quorum of prepares or commits in one view of one committee. Different views never add up. */
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Vote } from '../../run/vote.ts';
import { findCommittee, proposalOf } from './committees.ts';
import {
  type CastVote,
  isAfter,
  type Prepared,
  type RoundState,
  type Turn,
  type ViewId,
} from './round-state.ts';

/** Votes of one step for one outcome in one view of one committee. */
export interface Count extends ViewId {
  readonly ctx: Digest;
  readonly digest: Digest;
  readonly step: Vote['step'];
  readonly votes: readonly CastVote[];
}

/** All counts of one step, in order of their first vote. */
export function counts(votes: readonly CastVote[], step: Vote['step']): readonly Count[] {
  const groups: (Count & { readonly votes: CastVote[] })[] = [];
  for (const vote of votes) {
    if (vote.step !== step) continue;
    const { attempt, view, ctx, digest } = vote;
    const group = groups.find(
      (each) =>
        each.view === view &&
        each.attempt === attempt &&
        each.digest === digest &&
        each.ctx === ctx,
    );
    if (group === undefined) groups.push({ attempt, view, ctx, digest, step, votes: [vote] });
    else group.votes.push(vote);
  }
  return groups;
}

/** One vote per member, if they are a quorum of their committee. */
export function quorumVotes(
  turn: Turn,
  { attempt, ctx, votes }: Count,
): readonly CastVote[] | undefined {
  const committee = findCommittee(turn, attempt, ctx);
  if (committee === undefined || votes.length < committee.quorum) return undefined;
  const byKey = new Map<WorkerId, CastVote>();
  for (const vote of votes) {
    if (committee.members.includes(vote.key) && !byKey.has(vote.key)) byKey.set(vote.key, vote);
  }
  return turn.context.hasQuorum(committee, new Set(byKey.keys())) ? [...byKey.values()] : undefined;
}

/** Event ids of votes, ascending. */
export const idsOf = (votes: readonly CastVote[]): readonly EventId[] =>
  votes.map(({ id }) => id).sort();

/** The outcome prepared in the latest view, up to the given recovery epoch: it must be proposed again. */
export function highestPrepared(turn: Turn, lastEpoch: number): Prepared | null {
  let highest = turn.state.lock;
  for (const count of counts(turn.state.votes, 'prepare')) {
    if (count.attempt > lastEpoch || (highest !== null && !isAfter(count, highest))) continue;
    const proposal = proposalOf(turn, count.ctx, count.digest);
    const quorum = proposal && quorumVotes(turn, count);
    if (proposal === undefined || quorum === undefined) continue;
    const { attempt, view, ctx, digest } = count;
    highest = { attempt, view, ctx, digest, proposal: proposal.id, prepares: idsOf(quorum) };
  }
  return highest;
}

/** Authors of prepares in a view. */
export const prepareVoters = (
  { votes }: RoundState,
  { attempt, view }: ViewId,
): ReadonlySet<WorkerId> =>
  new Set(
    votes
      .filter((v) => v.attempt === attempt && v.view === view && v.step === 'prepare')
      .map(({ key }) => key),
  );
