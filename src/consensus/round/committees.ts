/**
 * Finds the committee a vote counts in: that of recovery epoch 0; where seats are sampled, the one that the round's randomness
 * draws for the epoch; else the authors of the view-change votes that a proposal lists.
 */
import type { Committee } from '../../run/committee.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { Proposal, Signed, ViewChangeVote } from '../../run/vote.ts';
import { ask, change, type RoundContext, type Turn } from './round-state.ts';

/** The committee with this digest (`ctx`), if this member knows it. */
export function findCommittee(turn: Turn, attempt: number, ctx: Digest): Committee | undefined {
  const { context, state } = turn;
  const drawn = drawnFor(context, attempt);
  if (drawn !== undefined) return drawn.ctx === ctx ? drawn : undefined;
  for (const vote of state.votes) {
    if (vote.type !== 'proposal' || vote.ctx !== ctx || vote.attempt !== attempt) continue;
    const committee = committeeBehind(turn, vote);
    if (committee?.ctx === ctx) return committee;
  }
  return undefined;
}

/** The committee that no list of view-change votes has a say in; undefined where it has. */
export function drawnFor(context: RoundContext, attempt: number): Committee | undefined {
  if (attempt === 0) return context.committee;
  return context.isSampled ? context.draw(attempt, []) : undefined;
}

/** The committee that votes on a proposal. Missing view-change votes are requested. */
export function committeeBehind(turn: Turn, proposal: Signed<Proposal>): Committee | undefined {
  const { attempt, ballots, id } = proposal;
  if (attempt === 0 && ballots.length > 0) return undefined;
  const drawn = drawnFor(turn.context, attempt);
  if (drawn !== undefined) return drawn;
  const known = turn.state.drawn[id];
  if (known !== undefined) return known;
  const committee = committeeOfViewChanges(turn, attempt, ballots);
  if (committee === undefined) return undefined;
  change(turn, { drawn: { ...turn.state.drawn, [id]: committee } });
  return committee;
}

/** The committee of an epoch whose proposal lists these view-change votes, if all are here and enough. */
export function committeeOfViewChanges(
  turn: Turn,
  attempt: number,
  ids: readonly EventId[],
): Committee | undefined {
  const keys = soundViewChanges(turn, attempt, ids);
  return keys && (drawnFor(turn.context, attempt) ?? turn.context.draw(attempt, keys));
}

/** Authors of these view-change votes, if all are here, each of another eligible key, and a proposal of this epoch may rest on them. */
export function soundViewChanges(
  turn: Turn,
  attempt: number,
  ids: readonly EventId[],
): readonly WorkerId[] | undefined {
  const { context } = turn;
  const listed = viewChangesById(turn, ids);
  if (listed === undefined || listed.some((each) => each.attempt !== attempt)) return undefined;
  const keys = listed.map(({ key }) => key);
  if (new Set(keys).size !== keys.length || !isEligible(context, keys)) return undefined;
  return context.isFloor(keys) && context.covers(attempt, keys) ? keys : undefined;
}

function isEligible({ eligible }: RoundContext, keys: readonly WorkerId[]): boolean {
  const known = new Set(eligible);
  return keys.every((key) => known.has(key));
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

export function viewChangesById(
  turn: Turn,
  ids: readonly EventId[],
): readonly Signed<ViewChangeVote>[] | undefined {
  const known = new Map(turn.state.ballots.map((vote) => [vote.id, vote]));
  const found = ids.map((id) => known.get(id));
  const missing = ids.filter((_, i) => found[i] === undefined);
  if (missing.length > 0) {
    wanted(turn, missing);
    return undefined;
  }
  return found.filter((vote) => vote !== undefined);
}

export function wanted(turn: Turn, ids: readonly EventId[]): false {
  ask(turn, `want ${ids.join()}`, { type: 'want', what: 'events', ids });
  return false;
}
