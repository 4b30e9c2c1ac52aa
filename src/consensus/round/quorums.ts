/**
 * Derives what the votes received so far prove: the committee of a vote, quorums of prepares and commits in a view, and
 * the justification of a proposal. Requests missing events.
 */
import type { Committee } from '../../run/committee.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import type { PreparedClaim, Proposal, Signed, ViewChangeVote, Vote } from '../../run/vote.ts';
import {
  type Activation,
  ask,
  type CastVote,
  change,
  isAfter,
  type Prepared,
  type RoundContext,
  type RoundState,
  type ViewId,
} from './round-state.ts';

/** Returns the committee with this digest (`ctx`), if this member knows it. */
export function findCommittee(
  activation: Activation,
  attempt: number,
  ctx: Digest,
): Committee | undefined {
  const { context, state } = activation;
  const drawn = drawnFor(context, attempt);
  if (drawn !== undefined) return drawn.ctx === ctx ? drawn : undefined;
  for (const vote of state.votes) {
    if (vote.type !== 'proposal' || vote.ctx !== ctx || vote.attempt !== attempt) continue;
    const committee = committeeBehind(activation, vote);
    if (committee?.ctx === ctx) return committee;
  }
  return undefined;
}

/** Returns the committee of an epoch if it does not depend on view-change votes; undefined if it does. */
export function drawnFor(context: RoundContext, attempt: number): Committee | undefined {
  if (attempt === 0) return context.committee;
  return context.isSampled ? context.draw(attempt, []) : undefined;
}

/** Returns the committee that votes on a proposal; requests missing view-change votes. */
function committeeBehind(
  activation: Activation,
  proposal: Signed<Proposal>,
): Committee | undefined {
  const { attempt, ballots, id } = proposal;
  if (attempt === 0 && ballots.length > 0) return undefined;
  const drawn = drawnFor(activation.context, attempt);
  if (drawn !== undefined) return drawn;
  const known = activation.state.drawn[id];
  if (known !== undefined) return known;
  const committee = committeeOfViewChanges(activation, attempt, ballots);
  if (committee === undefined) return undefined;
  change(activation, { drawn: { ...activation.state.drawn, [id]: committee } });
  return committee;
}

/** Returns the committee of an epoch whose proposal lists these view-change votes, if all arrived and they suffice. */
export function committeeOfViewChanges(
  activation: Activation,
  attempt: number,
  ids: readonly EventId[],
): Committee | undefined {
  const keys = soundViewChanges(activation, attempt, ids);
  return keys && (drawnFor(activation.context, attempt) ?? activation.context.draw(attempt, keys));
}

/** Returns the authors of these votes, if all votes arrived and their authors are eligible and enough for the epoch. */
function soundViewChanges(
  activation: Activation,
  attempt: number,
  ids: readonly EventId[],
): readonly WorkerId[] | undefined {
  const { context } = activation;
  const listed = viewChangesById(activation, ids);
  if (listed === undefined || listed.some((each) => each.attempt !== attempt)) return undefined;
  const keys = listed.map(({ key }) => key);
  if (new Set(keys).size !== keys.length || !isEligible(context, keys)) return undefined;
  return context.isFloor(keys) && context.covers(attempt, keys) ? keys : undefined;
}

function isEligible({ eligible }: RoundContext, keys: readonly WorkerId[]): boolean {
  const known = new Set(eligible);
  return keys.every((key) => known.has(key));
}

/** Returns a proposal of this outcome to this committee; its view-change votes must yield the committee. */
export const proposalOf = (
  activation: Activation,
  ctx: Digest,
  digest: Digest,
): Signed<Proposal> | undefined =>
  activation.state.votes.find(
    (vote): vote is Signed<Proposal> =>
      vote.type === 'proposal' &&
      vote.digest === digest &&
      vote.ctx === ctx &&
      committeeBehind(activation, vote)?.ctx === ctx,
  );

function viewChangesById(
  activation: Activation,
  ids: readonly EventId[],
): readonly Signed<ViewChangeVote>[] | undefined {
  const known = new Map(activation.state.ballots.map((vote) => [vote.id, vote]));
  const votes = ids.map((id) => known.get(id));
  const missing = ids.filter((_, i) => votes[i] === undefined);
  if (missing.length > 0) {
    requestEvents(activation, missing);
    return undefined;
  }
  return votes.filter((vote) => vote !== undefined);
}

function requestEvents(activation: Activation, ids: readonly EventId[]): false {
  ask(activation, `want ${ids.join()}`, { type: 'want', what: 'events', ids });
  return false;
}

/** Votes of one step for one outcome in one view of one committee. */
export interface Count extends ViewId {
  readonly ctx: Digest;
  readonly digest: Digest;
  readonly step: Vote['step'];
  readonly votes: readonly CastVote[];
}

/** Groups the votes of one step by outcome, view and committee, in the order of their first vote. */
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

/** Returns one vote per member if they form a quorum of their committee, else undefined. */
export function quorumVotes(
  activation: Activation,
  { attempt, ctx, votes }: Count,
): readonly CastVote[] | undefined {
  const committee = findCommittee(activation, attempt, ctx);
  if (committee === undefined || votes.length < committee.quorum) return undefined;
  const byKey = new Map<WorkerId, CastVote>();
  for (const vote of votes) {
    if (committee.members.includes(vote.key) && !byKey.has(vote.key)) byKey.set(vote.key, vote);
  }
  return activation.context.hasQuorum(committee, new Set(byKey.keys()))
    ? [...byKey.values()]
    : undefined;
}

/** Event ids of votes, ascending. */
export const idsOf = (votes: readonly CastVote[]): readonly EventId[] =>
  votes.map(({ id }) => id).sort();

/** Returns the outcome prepared in the latest view, up to the given recovery epoch: it must be proposed again. */
export function highestPrepared(activation: Activation, lastEpoch: number): Prepared | null {
  let highest = activation.state.lock;
  for (const count of counts(activation.state.votes, 'prepare')) {
    if (count.attempt > lastEpoch || (highest !== null && !isAfter(count, highest))) continue;
    const proposal = proposalOf(activation, count.ctx, count.digest);
    const quorum = proposal && quorumVotes(activation, count);
    if (proposal === undefined || quorum === undefined) continue;
    const { attempt, view, ctx, digest } = count;
    highest = { attempt, view, ctx, digest, proposal: proposal.id, prepares: idsOf(quorum) };
  }
  return highest;
}

/** Returns the authors of prepares in a view. */
export const prepareVoters = (
  { votes }: RoundState,
  { attempt, view }: ViewId,
): ReadonlySet<WorkerId> =>
  new Set(
    votes
      .filter((v) => v.attempt === attempt && v.view === view && v.step === 'prepare')
      .map(({ key }) => key),
  );

/** Why a proposal may be prepared: its committee and an earlier quorum, if any. */
export interface Justification {
  readonly committee: Committee;
  /** The view in which a quorum already prepared the outcome; undefined for a new outcome. */
  readonly prepared: ViewId | undefined;
}

/** Returns the justification of a proposal; undefined if it is invalid or events are still missing. */
export function justificationOf(
  activation: Activation,
  proposal: Signed<Proposal>,
): Justification | undefined {
  const committee = committeeBehind(activation, proposal);
  if (committee === undefined || committee.ctx !== proposal.ctx) return undefined;
  const { attempt, view, digest, ctx, justify, prepares, ballots, outcome, key } = proposal;
  if (justify >= 0) {
    const prepared = { attempt, view: justify };
    if (
      justify >= view ||
      !isProven(activation, { ...prepared, ctx, digest }, prepares, committee)
    ) {
      return undefined;
    }
    return { committee, prepared: prepared };
  }
  if (prepares.length > 0) return undefined;
  if (attempt > 0 && soundViewChanges(activation, attempt, ballots) === undefined) return undefined;
  const claim = highestClaim(activation, ballots);
  if (claim === 'unproven') return undefined;
  if (claim !== undefined)
    return claim.digest === digest ? { committee, prepared: claim } : undefined;
  const isNew = outcome.proposer === key && outcome.ballots.join() === ballots.join();
  return isNew ? { committee, prepared: undefined } : undefined;
}

/** Returns the latest outcome that these view-change votes claim as prepared; `unproven` without a valid proof. */
export function highestClaim(
  activation: Activation,
  ids: readonly EventId[],
): PreparedClaim | undefined | 'unproven' {
  const listed = viewChangesById(activation, ids);
  if (listed === undefined) return 'unproven';
  let highest: PreparedClaim | undefined;
  for (const vote of listed) {
    const { prepared } = vote;
    if (prepared === null) continue;
    if (!isClaimProven(activation, vote)) return 'unproven';
    if (highest === undefined || isAfter(prepared, highest)) highest = prepared;
  }
  return highest;
}

/** Reports whether a view-change vote's claim is proven: a quorum prepared that outcome. */
export function isClaimProven(
  activation: Activation,
  { prepared: claim, attempt }: ViewChangeVote,
): boolean {
  if (claim === null) return true;
  if (claim.attempt >= attempt) return false;
  const proposal = activation.state.votes.find(({ id }) => id === claim.proposal);
  if (proposal === undefined) return requestEvents(activation, [claim.proposal]);
  if (proposal.type !== 'proposal' || proposal.digest !== claim.digest) return false;
  if (proposal.attempt !== claim.attempt) return false;
  const committee = committeeBehind(activation, proposal);
  if (committee === undefined || committee.ctx !== proposal.ctx) return false;
  return isProven(activation, { ...claim, ctx: proposal.ctx }, claim.prepares, committee);
}

/** Reports whether these prepares are a quorum for this outcome in this view; requests missing ones. */
function isProven(
  activation: Activation,
  { attempt, view, ctx, digest }: ViewId & Pick<CastVote, 'ctx' | 'digest'>,
  ids: readonly EventId[],
  committee: Committee,
): boolean {
  const votes = ids.map((id) => activation.state.votes.find((vote) => vote.id === id));
  const missing = ids.filter((_, i) => votes[i] === undefined);
  if (missing.length > 0) return requestEvents(activation, missing);
  const keys = new Set<WorkerId>();
  for (const vote of votes) {
    if (vote === undefined || vote.step !== 'prepare' || vote.attempt !== attempt) return false;
    if (vote.view !== view || vote.ctx !== ctx || vote.digest !== digest) return false;
    keys.add(vote.key);
  }
  return activation.context.hasQuorum(committee, keys);
}
