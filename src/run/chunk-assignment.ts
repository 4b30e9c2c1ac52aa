/** Who sends which chunks of the parameters in a round; `consensus/committee/hrw.ts` decides it. */
import type { Stretch } from '../tensor/partial-vector.ts';
import type { Digest, WorkerId } from './ids.ts';

export interface ChunkAssignment {
  /** Names the division among the owners; undefined when every worker sends everything. */
  readonly digest: Digest | undefined;
  /** Chunks that move in this round, ascending; all of them unless the model is sent in fragments. */
  readonly moving: Uint32Array;
  /** Where only a stretch of the parameters moves: of chunks at its ends, what lies outside counts for nothing. */
  readonly stretch?: Stretch | undefined;
  /** Those of them, ascending, that a worker sends, as an owner or beside the owners; none for anybody else. */
  chunksOf(worker: WorkerId): Uint32Array;
  /** The most chunks any worker has. */
  readonly most: number;
}
