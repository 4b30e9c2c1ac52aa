/** Who votes in one recovery epoch of a round, in rank order. `consensus/committee/` draws it; the round machine only reads it. */
import type { Digest, WorkerId } from './ids.ts';

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
