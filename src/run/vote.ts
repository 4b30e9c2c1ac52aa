/** Protocol messages of certified rounds: prepares, commits, proposals, view changes, joins, leaves and verdicts. */

import type { Digest, EventId, WorkerId } from './ids.ts';
import type { ListedJoin, Signature } from './listed.ts';
import type { Outcome } from './outcome.ts';
import type { FeatureValues } from './spec/features.ts';

/** The recovery epoch of a round that a message belongs to, and the history it builds on. */
export interface RoundEpoch {
  readonly run: Digest;
  readonly round: number;
  /** Recovery epoch: 0 unless the round failed to finish. */
  readonly attempt: number;
  /** Digest of the outcome before; the run id in round 0. */
  readonly parent: Digest;
}

interface Cast extends RoundEpoch {
  /** Digest of the committee the voter belongs to. */
  readonly ctx: Digest;
  readonly view: number;
  /** Digest of the outcome. */
  readonly digest: Digest;
  /** The earlier view in which the outcome was prepared; -1 without one, and in commits. */
  readonly justify: number;
}

/** Returns where a vote or proposal is cast, and for which outcome. */
export const castOf = ({
  run,
  round,
  attempt,
  parent,
  ctx,
  view,
  digest,
}: Omit<Cast, 'justify'>): Omit<Cast, 'justify'> => ({
  run,
  round,
  attempt,
  parent,
  ctx,
  view,
  digest,
});

/** States that the outcome is valid, that the voter has everything it lists, and that it votes for it in this view. */
export interface Prepare extends Cast {
  readonly type: 'vote';
  readonly step: 'prepare';
}

/** States that a quorum prepared the outcome in this view, and that the voter is locked on it. */
export interface Commit extends Cast {
  readonly type: 'vote';
  readonly step: 'commit';
  /** Roster indices, ascending, of workers whose manifest arrived on time but is not listed in the outcome. */
  readonly unlisted: readonly number[];
  /** Fields of features. */
  readonly features?: FeatureValues<'vote'>;
}

/** A vote of a committee member, in either step. */
export type Vote = Prepare | Commit;

/** A proposed outcome; it counts as its author's prepare. */
export interface Proposal extends Cast {
  readonly type: 'proposal';
  readonly step: 'prepare';
  readonly outcome: Outcome;
  /** The prepares behind `justify`, ascending; none without it. */
  readonly prepares: readonly EventId[];
  /** The view-change votes whose authors the committee is drawn from, ascending; none in recovery epoch 0. */
  readonly ballots: readonly EventId[];
}

/** The latest outcome that a quorum prepared, as claimed by a view-change vote. */
export interface PreparedClaim {
  readonly attempt: number;
  readonly view: number;
  readonly digest: Digest;
  /** A proposal of it in that view. It carries the outcome; in epochs above 0 also view-change votes. */
  readonly proposal: EventId;
  /** A quorum of prepares of that view, ascending. */
  readonly prepares: readonly EventId[];
}

/** Promises no more votes in earlier recovery epochs, and states the latest prepared outcome the author knows. */
export interface ViewChangeVote extends RoundEpoch {
  readonly type: 'ballot';
  readonly prepared: PreparedClaim | null;
}

/** Messages that the round machine signs and counts. */
export type Message = Vote | Proposal | ViewChangeVote;

/** A request to be in the roster. */
export interface Join extends Pick<ListedJoin, 'after' | 'tip' | 'evidence' | 'features'> {
  readonly type: 'join';
  readonly run: Digest;
}

/** A notice that the author leaves the roster. */
export interface Leave {
  readonly type: 'leave';
  readonly run: Digest;
  /** The last round in which it takes part. */
  readonly last: number;
}

/** States that its author recomputed the steps of a contribution, and that they do not lead to what was sent. */
export interface CheckVerdict {
  readonly type: 'verdict';
  readonly run: Digest;
  /** Round of the contribution. */
  readonly checked: number;
  readonly accused: WorkerId;
  readonly manifest: EventId;
  readonly reason: string;
}

/** Messages about the whole run rather than a round. */
export type Notice = Join | Leave | CheckVerdict;

/** A verified protocol message with the id and author of its event; for some, also what rebuilds the event. */
export type Signed<T> = T & {
  readonly id: EventId;
  readonly key: WorkerId;
  readonly signature?: Signature;
};
