/**
 * Receives messages in the round machine: checks author, round and clock, limits spam, and proves faults. A fault proof
 * is two events of one key of which an honest member would sign only one.
 */

import type { Digest } from '../../run/ids.ts';
import type {
  Message,
  Proposal,
  RoundEpoch,
  Signed,
  ViewChangeVote,
  Vote,
} from '../../run/vote.ts';
import { drawnFor } from './quorums.ts';
import {
  type Activation,
  type CastVote,
  change,
  type Fault,
  isAfter,
  type Refusal,
} from './round-state.ts';
import { latestEpoch, latestView } from './timing.ts';

/** Maximum number of messages kept per key and slot: two prove an equivocation. */
const MOST_CONTENTS = 2;

/** Stores a message of the round, or refuses it; reports faults and answers members that are behind. */
export function receive(activation: Activation, message: Signed<Message>): void {
  const { state } = activation;
  const known = message.type === 'ballot' ? state.ballots : state.votes;
  if (known.some(({ id }) => id === message.id)) {
    answer(activation, message);
    return;
  }
  const refusal = refuse(activation, message) ?? refuseFlood(activation, known, message);
  if (refusal !== undefined) {
    activation.effects.push({ type: 'refused', refusal });
    return;
  }
  accuse(activation, known, message);
  if (message.type === 'ballot') change(activation, { ballots: [...state.ballots, message] });
  else change(activation, { votes: [...state.votes, message] });
  activation.heard = true;
  answer(activation, message);
}

/**
 * Returns why a message does not belong in this round, or undefined. Refuses views that no honest clock can have
 * reached, because storing them would fill memory.
 */
function refuse({ context, now }: Activation, message: Signed<Message>): Refusal | undefined {
  const { key, attempt } = message;
  if (message.round !== context.round) {
    return { code: 'invalid-round', round: message.round, current: context.round };
  }
  if (message.run !== context.run || message.parent !== context.parent) {
    return { code: 'other-history', key };
  }
  if (!context.roster.includes(key)) return { code: 'not-a-member', key };
  if (attempt > latestEpoch(context, now)) return { code: 'too-early', key };
  if (message.type === 'ballot') return undefined;
  if (message.view > latestView(context, now)) return { code: 'too-early', key };
  const committee = drawnFor(context, attempt);
  if (committee === undefined) return undefined;
  const { members, ctx } = committee;
  if (!members.includes(key)) return { code: 'not-a-member', key };
  return message.ctx === ctx ? undefined : { code: 'other-committee', key };
}

/**
 * Bounds the memory that an equivocator can use: after two messages in a slot, accepts only messages requested by id,
 * and a vote for an outcome that another honest member voted for in that view.
 */
function refuseFlood(
  { state }: Activation,
  known: readonly (CastVote | Signed<ViewChangeVote>)[],
  message: Signed<Message>,
): Refusal | undefined {
  const { key, id } = message;
  const inSlot = known.filter((other) => isSameSlot(other, message));
  if (inSlot.length < MOST_CONTENTS) return undefined;
  const body = message.type === 'proposal' ? message.digest : id;
  if (state.asked.some((request) => request.includes(id) || request.includes(`want ${body}`))) {
    return undefined;
  }
  if (message.type !== 'ballot') {
    const { attempt, view, ctx, digest } = message;
    // one outcome may be proposed to several committees of a recovery epoch; each counts its own votes
    const same = state.votes.filter(
      (v) => v.digest === digest && v.ctx === ctx && v.view === view && v.attempt === attempt,
    );
    const isNew = same.every((vote) => vote.key !== key || vote.step !== message.step);
    if (isNew && same.some((vote) => !state.faulty.includes(vote.key))) return undefined;
  }
  return { code: 'too-many', key };
}

/** Reports the first fault proof against a key; one is enough to expel it. */
function accuse(
  activation: Activation,
  known: readonly (CastVote | Signed<ViewChangeVote>)[],
  message: Signed<Message>,
): void {
  if (activation.state.faulty.includes(message.key)) return;
  for (const other of known) {
    const fault = other.key === message.key ? judgeFault(other, message) : undefined;
    if (fault === undefined) continue;
    activation.effects.push({ type: 'fault', fault });
    change(activation, { faulty: [...activation.state.faulty, message.key] });
    return;
  }
}

/** Re-sends the certificate to a member that still votes in a decided round. */
function answer({ state, context, effects }: Activation, message: Signed<Message>): void {
  const { decided } = state;
  if (decided === null || message.key === context.me) return;
  const view = message.type === 'ballot' ? 0 : message.view;
  if (!isAfter({ attempt: message.attempt, view }, decided)) return;
  effects.push({ type: 'resend', ids: [decided.proposal, ...decided.commits] });
}

/** A manifest in a fault proof: two different ones of a key for one round are an equivocation. */
export interface ManifestClaim extends Omit<RoundEpoch, 'attempt'> {
  readonly type: 'manifest';
  /** SHA-256 of the content. */
  readonly content: Digest;
}

/** A signed message that can be part of a fault proof. Of a proposal only the digest is needed, not the outcome. */
export type Statement = Signed<Vote | Omit<Proposal, 'outcome'> | ViewChangeVote | ManifestClaim>;

/** Reports whether two messages are in the same slot; a key may sign only one content per slot. */
export function isSameSlot(a: Statement, b: Statement): boolean {
  if (a.key !== b.key || a.round !== b.round || a.parent !== b.parent || a.run !== b.run) {
    return false;
  }
  if (a.type === 'manifest' || b.type === 'manifest') return a.type === b.type;
  if (a.attempt !== b.attempt) return false;
  if (a.type === 'ballot' || b.type === 'ballot') return a.type === b.type;
  return a.view === b.view && a.step === b.step;
}

/** Returns the content that must be unique in the slot: everything except time and event id. */
function contentOf(statement: Statement): string {
  if (statement.type === 'manifest') return statement.content;
  if (statement.type === 'ballot') {
    const claim = statement.prepared;
    const { attempt, view, digest, proposal, prepares } = claim ?? {};
    return JSON.stringify([attempt, view, digest, proposal, prepares]);
  }
  const cast = [statement.type, statement.ctx, statement.digest, statement.justify];
  if (statement.type === 'proposal') {
    return JSON.stringify([cast, statement.prepares, statement.ballots]);
  }
  const isCommit = statement.step === 'commit';
  return JSON.stringify(isCommit ? [cast, statement.unlisted, statement.features] : cast);
}

/** Returns the fault that two events prove against the key that signed both, if any; their order does not matter. */
export function judgeFault(a: Statement, b: Statement): Fault | undefined {
  if (a.key !== b.key || a.id === b.id) return undefined;
  const events = a.id < b.id ? ([a.id, b.id] as const) : ([b.id, a.id] as const);
  if (isSameSlot(a, b)) {
    return contentOf(a) === contentOf(b) ? undefined : { key: a.key, kind: 'equivocation', events };
  }
  return isBrokenLock(a, b) || isBrokenLock(b, a)
    ? { key: a.key, kind: 'broken-lock', events }
    : undefined;
}

/** Reports whether a key committed to one outcome and later prepared another without a newer quorum of prepares. */
function isBrokenLock(commit: Statement, prepare: Statement): boolean {
  if (commit.type !== 'vote' || commit.step !== 'commit') return false;
  if (prepare.type === 'manifest' || prepare.type === 'ballot' || prepare.step !== 'prepare') {
    return false;
  }
  const isSameEpoch =
    commit.run === prepare.run &&
    commit.round === prepare.round &&
    commit.parent === prepare.parent &&
    commit.attempt === prepare.attempt;
  return (
    isSameEpoch &&
    commit.digest !== prepare.digest &&
    prepare.view > commit.view &&
    prepare.justify < commit.view
  );
}
