/** Where a worker stands in a certified run, as it is kept on disk beside the model; and the certified state made of both. */

import type { ModelState } from '../../consensus/state-root.ts';
import type { EventId } from '../../run/ids.ts';
import type { RunSpec } from '../../run/run-spec.ts';
import type { Certified, Chain } from './history.ts';

/** What is certified without model and spec, and why it is. */
export interface Standing extends Omit<Chain, 'spec'> {
  /** A quorum of commits for the outcome before; none in round 0. */
  readonly votes: readonly EventId[];
}

/** What a worker keeps of a certified state beside the model. */
export function standingOf(state: Certified, votes: readonly EventId[]): Standing {
  const { spec: _, params: __, momentum: ___, ...chain } = state;
  return { ...chain, votes };
}

/** The certified state again. */
export function certifiedOf(
  spec: RunSpec,
  { votes: _, ...chain }: Standing,
  { params, momentum }: ModelState,
): Certified {
  return { ...chain, spec, params, momentum };
}
