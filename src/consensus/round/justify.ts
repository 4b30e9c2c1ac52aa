/**
 * Checks the justification of a proposal: none (a new outcome), a quorum of prepares in an earlier view, or the view-change votes
 * of a recovery epoch. Every event it names must be present; missing ones are requested.
 */
import type { Committee } from '../../run/committee.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import type { PreparedClaim, Proposal, Signed, ViewChangeVote } from '../../run/vote.ts';
import { committeeBehind, soundViewChanges, viewChangesById, wanted } from './committees.ts';
import { type CastVote, isAfter, type Turn, type ViewId } from './round-state.ts';

export interface Justification {
  readonly committee: Committee;
  /** The view in which a quorum prepared the outcome before; undefined for a new outcome. */
  readonly prepared: ViewId | undefined;
}

/** The justification of a proposal, or undefined while something is missing or when it is invalid. */
export function justificationOf(turn: Turn, proposal: Signed<Proposal>): Justification | undefined {
  const committee = committeeBehind(turn, proposal);
  if (committee === undefined || committee.ctx !== proposal.ctx) return undefined;
  const { attempt, view, digest, ctx, justify, prepares, ballots, outcome, key } = proposal;
  if (justify >= 0) {
    const place = { attempt, view: justify };
    if (justify >= view || !isProven(turn, { ...place, ctx, digest }, prepares, committee)) {
      return undefined;
    }
    return { committee, prepared: place };
  }
  if (prepares.length > 0) return undefined;
  if (attempt > 0 && soundViewChanges(turn, attempt, ballots) === undefined) return undefined;
  const claim = highestClaim(turn, ballots);
  if (claim === 'unproven') return undefined;
  if (claim !== undefined)
    return claim.digest === digest ? { committee, prepared: claim } : undefined;
  const isNew = outcome.proposer === key && outcome.ballots.join() === ballots.join();
  return isNew ? { committee, prepared: undefined } : undefined;
}

/** The latest prepared outcome that these view-change votes claim; `unproven` while a claim lacks its proof or fails it. */
export function highestClaim(
  turn: Turn,
  ids: readonly EventId[],
): PreparedClaim | undefined | 'unproven' {
  const listed = viewChangesById(turn, ids);
  if (listed === undefined) return 'unproven';
  let highest: PreparedClaim | undefined;
  for (const vote of listed) {
    const { prepared } = vote;
    if (prepared === null) continue;
    if (!isClaimProven(turn, vote)) return 'unproven';
    if (highest === undefined || isAfter(prepared, highest)) highest = prepared;
  }
  return highest;
}

/** Whether a view-change vote's claim holds: a quorum did prepare that outcome. */
export function isClaimProven(turn: Turn, { prepared: claim, attempt }: ViewChangeVote): boolean {
  if (claim === null) return true;
  if (claim.attempt >= attempt) return false;
  const proposal = turn.state.votes.find(({ id }) => id === claim.proposal);
  if (proposal === undefined) return wanted(turn, [claim.proposal]);
  if (proposal.type !== 'proposal' || proposal.digest !== claim.digest) return false;
  if (proposal.attempt !== claim.attempt) return false;
  const committee = committeeBehind(turn, proposal);
  if (committee === undefined || committee.ctx !== proposal.ctx) return false;
  return isProven(turn, { ...claim, ctx: proposal.ctx }, claim.prepares, committee);
}

/** Whether these prepares are a quorum for this outcome in this view. */
function isProven(
  turn: Turn,
  { attempt, view, ctx, digest }: ViewId & Pick<CastVote, 'ctx' | 'digest'>,
  ids: readonly EventId[],
  committee: Committee,
): boolean {
  const found = ids.map((id) => turn.state.votes.find((vote) => vote.id === id));
  const missing = ids.filter((_, i) => found[i] === undefined);
  if (missing.length > 0) return wanted(turn, missing);
  const keys = new Set<WorkerId>();
  for (const vote of found) {
    if (vote === undefined || vote.step !== 'prepare' || vote.attempt !== attempt) return false;
    if (vote.view !== view || vote.ctx !== ctx || vote.digest !== digest) return false;
    keys.add(vote.key);
  }
  return turn.context.hasQuorum(committee, keys);
}
