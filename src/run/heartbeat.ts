/** What a worker says of itself between gradients: alive, in which round, on which bits, with whom it agreed. */

import type { Digest, WorkerId } from './ids.ts';
import type { FeatureValues } from './spec/features.ts';
import type { Terms } from './terms.ts';

export interface Heartbeat {
  readonly worker: WorkerId;
  readonly round: number;
  /** How often the next one is promised, in seconds. */
  readonly intervalSeconds: number;
  readonly examples: number | undefined;
  readonly capabilities: readonly string[];
  /** Relay hints for peers. */
  readonly relays: readonly string[];
  /** Digest of the state the worker starts `round` from. */
  readonly digest: Digest | undefined;
  /** Whose contributions made that state: the cohort of `round - 1`. */
  readonly cohort: readonly WorkerId[] | undefined;
  /** True in the last one a worker sends. */
  readonly leaving: boolean;
  /** What the worker was started with, in a run without a spec. */
  readonly terms?: Terms | undefined;
  /** What features of a certified run add. */
  readonly features?: FeatureValues<'heartbeat'>;
  /** Unix seconds, as signed. */
  readonly createdAt: number;
}

/** A heartbeat is stale when its author missed `maxMissed` intervals; a leaving one is stale at once. */
export const isStale = (
  heartbeat: Pick<Heartbeat, 'leaving' | 'createdAt' | 'intervalSeconds'>,
  nowSeconds: number,
  maxMissed: number,
): boolean =>
  heartbeat.leaving || heartbeat.createdAt + heartbeat.intervalSeconds * maxMissed < nowSeconds;
