/** What committee members sign: prepares, commits, proposals and ballots; and what workers sign about being in the run. */
import type { Digest, EventId, WorkerId } from './ids.ts';
import type { Outcome } from './outcome.ts';

/** What a vote is about: one attempt at one round after one history. */
export interface Attempt {
  readonly run: Digest;
  readonly round: number;
  /** 0 first; each recovery adds one. */
  readonly attempt: number;
  /** Digest of the outcome before; the run id in round 0. */
  readonly parent: Digest;
}

interface Cast extends Attempt {
  /** The committee the voter counts itself into. */
  readonly ctx: Digest;
  readonly view: number;
  /** Digest of the outcome. */
  readonly digest: Digest;
  /** The earlier view in which the outcome was prepared; -1 without one, and in commits. */
  readonly justify: number;
}

/** "This outcome is valid, I hold all it lists, and I prefer it in this view." */
export interface Prepare extends Cast {
  readonly type: 'vote';
  readonly step: 'prepare';
}

/** "A quorum prepared this outcome in this view; I am locked on it." */
export interface Commit extends Cast {
  readonly type: 'vote';
  readonly step: 'commit';
  /** Manifests the voter holds, on time, that the outcome does not list. */
  readonly unlisted: readonly EventId[];
  /** One integer per accepted row; empty where nothing is scored. */
  readonly scores: readonly number[];
}

export type Vote = Prepare | Commit;

/** An outcome put to the vote; it counts as its author's prepare. */
export interface Proposal extends Cast {
  readonly type: 'proposal';
  readonly step: 'prepare';
  readonly outcome: Outcome;
  /** The prepares behind `justify`, ascending; none without it. */
  readonly prepares: readonly EventId[];
  /** The ballots the committee is drawn from, ascending; none in attempt 0. */
  readonly ballots: readonly EventId[];
}

/** An outcome that a quorum prepared, as far as the author of a ballot knows. */
export interface PreparedClaim {
  readonly attempt: number;
  readonly view: number;
  readonly digest: Digest;
  /** A proposal of it in that view: it has the body, and in attempts above 0 the ballots of that committee. */
  readonly proposal: EventId;
  /** A quorum of prepares of that view, ascending. */
  readonly prepares: readonly EventId[];
}

/** "I vote in no attempt below this one any more; this is the highest outcome I know to be prepared." */
export interface ViewChangeVote extends Attempt {
  readonly type: 'ballot';
  readonly prepared: PreparedClaim | null;
}

/** What the round machine signs and counts. */
export type Message = Vote | Proposal | ViewChangeVote;

/** Wants to be in the roster. */
export interface Join {
  readonly type: 'join';
  readonly run: Digest;
  /** A recent outcome; the run id before there is one. */
  readonly after: Digest;
  /** End of the author's reveal chain. */
  readonly tip: Digest;
  /** What the run's admission rule asks for; empty where it asks for nothing. */
  readonly evidence: string;
}

/** Leaves the roster. */
export interface Leave {
  readonly type: 'leave';
  readonly run: Digest;
  /** The last round it takes part in. */
  readonly last: number;
}

/** A noun whose event was verified: its id, and who signed it. */
export type Signed<T> = T & { readonly id: EventId; readonly key: WorkerId };
