/**
 * The mean of a cohort whose workers each sent the chunks they own: every chunk is averaged over those who sent it, in the
 * operation order of the plain mean. A chunk that nobody sent has no mean and must not move.
 */
import type { WorkerId } from '../../run/ids.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import {
  addPartial,
  CHUNK_LENGTH,
  chunkCount,
  type PartialVector,
} from '../../tensor/partial-vector.ts';

/** One worker's chunks, and what it weighs against the other owners. */
export interface ChunkShare {
  readonly worker: WorkerId;
  readonly weight: number;
  readonly delta: PartialVector;
}

export interface ChunkMean {
  /** Mean Δ of the chunks below, dense; zeros elsewhere. */
  readonly mean: Float64Array;
  /** Chunks that at least one worker sent, ascending: parameters and momentum of the others stay as they are. */
  readonly moved: Uint32Array;
}

/** The mean of each chunk over its owners in the cohort, one share per worker; the order of the input does not matter. */
export function chunkMean(cohort: readonly ChunkShare[], size: number): ChunkMean {
  const mean = new Float64Array(size);
  const weights = new Float64Array(chunkCount(size));
  const inOrder = [...cohort].sort((a, b) => compareCodePoints(a.worker, b.worker));
  for (const { delta, weight } of inOrder) {
    if (!(weight > 0)) throw new RangeError(`a weight of ${weight}`);
    addPartial(mean, delta, weight);
    for (const chunk of delta.chunks) weights[chunk] = weights[chunk]! + weight;
  }
  const moved: number[] = [];
  weights.forEach((weight, chunk) => {
    if (weight === 0) return;
    moved.push(chunk);
    const share = 1 / weight;
    const end = Math.min(size, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) mean[i] = mean[i]! * share;
  });
  return { mean, moved: Uint32Array.from(moved) };
}
