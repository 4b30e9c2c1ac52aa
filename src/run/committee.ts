/** What is drawn in a run: recovery committees, contributions to recompute, and the beacon that adds randomness. */

import { bytes32, taggedHash, u32 } from '../base/hash.ts';
import type { Digest, WorkerId } from './ids.ts';

/** The workers that decide a round, with their voting weights and quorum. */
export interface Committee {
  readonly round: number;
  /** 0, or the number of the recovery epoch. */
  readonly attempt: number;
  /** By rank: in view v the member of rank v mod K proposes. */
  readonly members: readonly WorkerId[];
  /** Capped stake of each member, in the order of `members`; 1 each where seats weigh the same. */
  readonly weights: readonly bigint[];
  /** K: how many members there are. */
  readonly size: number;
  /** k: how many of them are a quorum, as far as seats go; stake may ask for more. */
  readonly quorum: number;
  /** Binds a vote to run, round, attempt, parent and the ordered members. */
  readonly ctx: Digest;
}

/** A contribution that an outcome lists, and the randomness of the round after it: nobody had that when it was sent. */
export interface Drawn {
  readonly run: Digest;
  readonly round: number;
  readonly worker: WorkerId;
  /** Of the round after it. */
  readonly entropy: string;
}

/** Whether the author of a listed contribution has to show its private state. */
export function isDrawn({ run, round, worker, entropy }: Drawn, permille: number): boolean {
  const parts = [bytes32(run), u32(round), bytes32(worker), bytes32(entropy)];
  const hash = taggedHash('nostrain/rerun/1', ...parts);
  return 1000 * new DataView(hash.buffer, hash.byteOffset).getUint32(0) < permille * 2 ** 32;
}

/** A signature proves itself to whoever has the chain's key; a block hash is for those to check who reach the chain. */
export type BeaconProof =
  | { readonly signature: string }
  | { readonly block: Digest; readonly height: number };

export interface BeaconSource {
  /** For people. */
  readonly name: string;
  /**
   * What counts after an outcome of this time, in unix seconds; waits until the moment has come. Throws a
   * `ChainError` when nobody has it yet, or nobody answers; it may be asked again.
   */
  after(time: number, signal: AbortSignal): Promise<BeaconProof>;
}
