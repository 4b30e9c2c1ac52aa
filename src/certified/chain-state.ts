/** What is certified of a run between two rounds: with the model, without it, and as the head of the chain that a worker keeps on disk. */
import type { Departure } from '../consensus/round/roster-change.ts';
import type { ModelState } from '../consensus/state-root.ts';
import type { Digest } from '../run/ids.ts';
import type { Ledger } from '../run/ledger.ts';
import type { ListedVotes } from '../run/listed.ts';
import type { Outcome } from '../run/outcome.ts';
import type { RunSpec } from '../run/run-spec.ts';
import type { Situation } from './electorate.ts';

/** A round that is over, as far as its votes and its late work are judged in the next one. */
export interface Past {
  readonly round: number;
  readonly parent: Digest;
  /** Model root it started from. */
  readonly base: Digest;
  /** Of that round, with its entropy. */
  readonly ledger: Ledger;
}

/** What is certified, without the model itself: enough to check who decided what. */
export interface Chain extends Situation {
  readonly spec: RunSpec;
  readonly run: Digest;
  /** The round to come. */
  readonly round: number;
  /** Digest of the outcome before; the run id in round 0. */
  readonly parent: Digest;
  /** Unix seconds of the outcome before; 0 in round 0. */
  readonly time: number;
  /** Of the round to come; its entropy is null while the beacon is not known. */
  readonly ledger: Ledger;
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
  /** The round before; null in round 0. */
  readonly before: Past | null;
  /** The run id and the digests of the last outcomes, the newest last: what a join may name as recent. */
  readonly recent: readonly Digest[];
  /** Leaves that outcomes listed, as long as a join may be older than one of them: an older one does not count again. */
  readonly departed: readonly Departure[];
}

/** The whole certified state. */
export interface Certified extends Chain, ModelState {}

/** An outcome without the roots, which follow from the rest. */
export type Draft = Omit<Outcome, 'rowSize' | 'modelRoot' | 'ledgerRoot'>;

/** What is certified without model and spec, and why it is. */
export interface ChainHead extends Omit<Chain, 'spec'> {
  /** A quorum of commits for the outcome before; none in round 0. */
  readonly votes: ListedVotes | null;
  /** Outcomes of branches that this worker left: what follows them it plays no part in any more, for it may have signed there. */
  readonly left: readonly Digest[];
}

/** The round of the outcome with this digest, -1 for the run id; undefined where a join may not name it. */
export function roundAfter({ round, recent }: Chain, digest: Digest): number | undefined {
  const index = recent.indexOf(digest);
  return index < 0 ? undefined : round - recent.length + index;
}

/** What a worker keeps of a certified state beside the model. */
export function chainHeadOf(
  state: Certified,
  votes: ListedVotes | null,
  left: readonly Digest[] = [],
): ChainHead {
  const { spec: _, params: __, momentum: ___, ...chain } = state;
  return { ...chain, votes, left };
}

/** The certified state again. */
export function certifiedOf(
  spec: RunSpec,
  { votes: _, left: __, ...chain }: ChainHead,
  { params, momentum }: ModelState,
): Certified {
  return { ...chain, spec, params, momentum };
}
