/** Who sends which chunks of the parameters in a round; `consensus/committee/hrw.ts` decides it. */
import type { Digest, WorkerId } from './ids.ts';

export interface ChunkAssignment {
  /** Names the division among the owners; undefined when every worker sends everything. */
  readonly digest: Digest | undefined;
  /** Chunks that move in this round, ascending; all of them unless the model is sent in fragments. */
  readonly moving: Uint32Array;
  /** Those of them, ascending, that a worker sends, as an owner or beside the owners; none for anybody else. */
  chunksOf(worker: WorkerId): Uint32Array;
  /** The most chunks any worker has. */
  readonly most: number;
}
