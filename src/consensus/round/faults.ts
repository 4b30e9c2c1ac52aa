/**
 * Fault proofs (slashing conditions): two events of one key that no honest member signs both of, such as two votes in one view.
 * They are self-contained: anybody can verify them without other messages.
 */
import type { Digest } from '../../run/ids.ts';
import type { Proposal, RoundEpoch, Signed, ViewChangeVote, Vote } from '../../run/vote.ts';
import type { Fault } from './round-state.ts';

/** The parts of a contribution manifest that fault proofs need. */
export interface ManifestClaim extends Omit<RoundEpoch, 'attempt'> {
  readonly type: 'manifest';
  /** SHA-256 of the content. */
  readonly content: Digest;
}

/** A signed message that can be part of a fault proof; a proposal's digest is enough, its outcome is not needed. */
type Statement = Signed<Vote | Omit<Proposal, 'outcome'> | ViewChangeVote | ManifestClaim>;

/** Whether two messages are in one slot; a key may sign only one content per slot. */
export function isSameSlot(a: Statement, b: Statement): boolean {
  if (a.key !== b.key || a.round !== b.round || a.parent !== b.parent || a.run !== b.run) {
    return false;
  }
  if (a.type === 'manifest' || b.type === 'manifest') return a.type === b.type;
  if (a.attempt !== b.attempt) return false;
  if (a.type === 'ballot' || b.type === 'ballot') return a.type === b.type;
  return a.view === b.view && a.step === b.step;
}

/** The content that must be unique in the slot, without time and event id. */
function contentOf(said: Statement): string {
  if (said.type === 'manifest') return said.content;
  if (said.type === 'ballot') {
    const claim = said.prepared;
    const { attempt, view, digest, proposal, prepares } = claim ?? {};
    return JSON.stringify([attempt, view, digest, proposal, prepares]);
  }
  const cast = [said.type, said.ctx, said.digest, said.justify];
  if (said.type === 'proposal') return JSON.stringify([cast, said.prepares, said.ballots]);
  return JSON.stringify(said.step === 'commit' ? [cast, said.unlisted, said.features] : cast);
}

/** The fault that two events prove against the key that signed both, if any; their order does not matter. */
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

/** It committed to one outcome and in a later view prepared another one without a newer quorum of prepares to justify that. */
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
