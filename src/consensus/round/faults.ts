/**
 * Proofs that a key broke the rules: two events of its own that no honest key signs both of. They prove it by themselves,
 * to anybody, whatever else that one has seen.
 */
import type { Digest } from '../../run/ids.ts';
import type { Attempt, Proposal, Signed, ViewChangeVote, Vote } from '../../run/vote.ts';
import type { Fault } from './round-state.ts';

/** A manifest, as far as faults are concerned. */
export interface ManifestClaim extends Omit<Attempt, 'attempt'> {
  readonly type: 'manifest';
  /** SHA-256 of the content. */
  readonly content: Digest;
}

/** Which outcome a proposal is of shows in its digest: the outcome itself need not be here. */
type Statement = Signed<Vote | Omit<Proposal, 'outcome'> | ViewChangeVote | ManifestClaim>;

/** Whether two statements are in one slot: what a key may sign only one content for. */
export function isSameSlot(a: Statement, b: Statement): boolean {
  if (a.key !== b.key || a.round !== b.round || a.parent !== b.parent || a.run !== b.run) {
    return false;
  }
  if (a.type === 'manifest' || b.type === 'manifest') return a.type === b.type;
  if (a.attempt !== b.attempt) return false;
  if (a.type === 'ballot' || b.type === 'ballot') return a.type === b.type;
  return a.view === b.view && a.step === b.step;
}

/** What it says in its slot; when it was signed and under which id does not matter. */
function contentOf(said: Statement): string {
  if (said.type === 'manifest') return said.content;
  if (said.type === 'ballot') {
    const claim = said.prepared;
    const { attempt, view, digest, proposal, prepares } = claim ?? {};
    return JSON.stringify([attempt, view, digest, proposal, prepares]);
  }
  const cast = [said.type, said.ctx, said.digest, said.justify];
  if (said.type === 'proposal') return JSON.stringify([cast, said.prepares, said.ballots]);
  return JSON.stringify(said.step === 'commit' ? [cast, said.unlisted, said.scores] : cast);
}

/** What two events prove against the key that signed both, if anything. The order does not matter. */
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

/** It committed to one outcome and later prepared another without one that was prepared since. */
function isBrokenLock(commit: Statement, prepare: Statement): boolean {
  if (commit.type !== 'vote' || commit.step !== 'commit') return false;
  if (prepare.type === 'manifest' || prepare.type === 'ballot' || prepare.step !== 'prepare') {
    return false;
  }
  const isSameAttempt =
    commit.run === prepare.run &&
    commit.round === prepare.round &&
    commit.parent === prepare.parent &&
    commit.attempt === prepare.attempt;
  return (
    isSameAttempt &&
    commit.digest !== prepare.digest &&
    prepare.view > commit.view &&
    prepare.justify < commit.view
  );
}
