/**
 * Finds the committee a vote counts in: that of recovery epoch 0, or one drawn from the authors of the view-change votes that a
 * proposal lists.
 */
import type { Committee } from '../../run/committee.ts';
import type { Digest, EventId } from '../../run/ids.ts';
import type { Proposal, Signed, ViewChangeVote } from '../../run/vote.ts';
import { ask, change, type Turn } from './round-state.ts';

/** The committee with this digest (`ctx`), if this member knows it. */
export function findCommittee(turn: Turn, attempt: number, ctx: Digest): Committee | undefined {
  const { context, state } = turn;
  if (attempt === 0) return context.committee.ctx === ctx ? context.committee : undefined;
  for (const vote of state.votes) {
    if (vote.type !== 'proposal' || vote.ctx !== ctx || vote.attempt !== attempt) continue;
    const committee = committeeBehind(turn, vote);
    if (committee?.ctx === ctx) return committee;
  }
  return undefined;
}

/** The committee that votes on a proposal. Missing view-change votes are requested. */
export function committeeBehind(turn: Turn, proposal: Signed<Proposal>): Committee | undefined {
  const { attempt, ballots, id } = proposal;
  if (attempt === 0) return ballots.length === 0 ? turn.context.committee : undefined;
  const known = turn.state.drawn[id];
  if (known !== undefined) return known;
  const committee = committeeOfBallots(turn, attempt, ballots);
  if (committee === undefined) return undefined;
  change(turn, { drawn: { ...turn.state.drawn, [id]: committee } });
  return committee;
}

/** The committee drawn from the authors of these view-change votes, if all are here and reach the recovery floor. */
export function committeeOfBallots(
  turn: Turn,
  attempt: number,
  ids: readonly EventId[],
): Committee | undefined {
  const listed = ballotsById(turn, ids);
  if (listed === undefined || listed.some((each) => each.attempt !== attempt)) return undefined;
  const keys = listed.map(({ key }) => key);
  const isSound = new Set(keys).size === keys.length && turn.context.isFloor(keys);
  return isSound ? turn.context.draw(attempt, keys) : undefined;
}

/** A proposal of this outcome to this committee; it carries the outcome. Its view-change votes must yield that committee. */
export const proposalOf = (turn: Turn, ctx: Digest, digest: Digest): Signed<Proposal> | undefined =>
  turn.state.votes.find(
    (vote): vote is Signed<Proposal> =>
      vote.type === 'proposal' &&
      vote.digest === digest &&
      vote.ctx === ctx &&
      committeeBehind(turn, vote)?.ctx === ctx,
  );

export function ballotsById(
  turn: Turn,
  ids: readonly EventId[],
): readonly Signed<ViewChangeVote>[] | undefined {
  const found = ids.map((id) => turn.state.ballots.find((ballot) => ballot.id === id));
  const missing = ids.filter((_, i) => found[i] === undefined);
  if (missing.length > 0) {
    wanted(turn, missing);
    return undefined;
  }
  return found.filter((ballot) => ballot !== undefined);
}

export function wanted(turn: Turn, ids: readonly EventId[]): false {
  ask(turn, `want ${ids.join()}`, { type: 'want', what: 'events', ids });
  return false;
}
