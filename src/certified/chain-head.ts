/** The head of the chain of certified outcomes as a worker keeps it on disk beside the model; and the certified state made of both. */
import type { ModelState } from '../consensus/state-root.ts';
import type { Digest } from '../run/ids.ts';
import type { ListedVotes } from '../run/listed.ts';
import type { RunSpec } from '../run/run-spec.ts';
import type { Certified, Chain } from './history.ts';

/** What is certified without model and spec, and why it is. */
export interface ChainHead extends Omit<Chain, 'spec'> {
  /** A quorum of commits for the outcome before; none in round 0. */
  readonly votes: ListedVotes | null;
  /** Outcomes of branches that this worker left: what follows them it plays no part in any more, for it may have signed there. */
  readonly left: readonly Digest[];
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
