/**
 * Types of a committee and of a randomness beacon, and the draw of the contributions whose steps are recomputed.
 * Committees are drawn in `consensus/committee`.
 */

import { bytes32, taggedHash, u32 } from '../base/hash.ts';
import type { Digest, WorkerId } from './ids.ts';

/** The workers that decide a round, with their voting weights and quorum. */
export interface Committee {
  readonly round: number;
  /** Index of the recovery epoch; 0 before any. */
  readonly attempt: number;
  /** In order of rank: in view v the member of rank v mod K proposes. */
  readonly members: readonly WorkerId[];
  /** Capped stake of each member, in the order of `members`; 1 each if seats have equal weight. */
  readonly weights: readonly bigint[];
  /** K: the number of members. */
  readonly size: number;
  /** k: the number of members in a quorum; stake may require more. */
  readonly quorum: number;
  /** Binds a vote to run, round, attempt, parent and the ordered members. */
  readonly ctx: Digest;
}

/**
 * A listed contribution with the randomness of the round after it, which was unknown when the contribution was sent.
 */
export interface Drawn {
  readonly run: Digest;
  readonly round: number;
  readonly worker: WorkerId;
  /** Randomness of the round after it. */
  readonly entropy: string;
}

/** Reports whether the author of a listed contribution must disclose its private state. */
export function isDrawn({ run, round, worker, entropy }: Drawn, permille: number): boolean {
  const parts = [bytes32(run), u32(round), bytes32(worker), bytes32(entropy)];
  const hash = taggedHash('nostrain/rerun/1', ...parts);
  return 1000 * new DataView(hash.buffer, hash.byteOffset).getUint32(0) < permille * 2 ** 32;
}

/** A signature can be verified with the chain's key alone; a block hash needs access to the chain. */
export type BeaconProof =
  | { readonly signature: string }
  | { readonly block: Digest; readonly height: number };

export interface BeaconSource {
  /** Name for messages. */
  readonly name: string;
  /**
   * Returns the beacon value for an outcome of this time, in unix seconds; waits until it is due. Throws a ChainError
   * if it is not available yet or no endpoint answers; callers may retry.
   */
  after(time: number, signal: AbortSignal): Promise<BeaconProof>;
}
