/**
 * Aggregation rule of certified rounds: weighted mean with norm clipping. Norms above `normBound` x the lower median are
 * clipped to it; then one f64 sum in a fixed order and one division. Only the rows that the outcome lists have an influence.
 */
import type { Normalization } from '../../run/settings.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import {
  CHUNK_LENGTH,
  chunkCount,
  type PartialVector,
  weighPartial,
} from '../../tensor/partial-vector.ts';
import type { Mean } from './mean.ts';

/** An accepted contribution. */
export interface ClippedRow {
  readonly worker: string;
  /** Whether it was made for the round before. */
  readonly late: boolean;
  readonly delta: PartialVector;
  readonly weight: number;
}

export interface ClippedMeanOptions {
  /** Length of the flat parameter vector. */
  readonly size: number;
  /** c: norms above c x the lower median are clipped; 0 does not clip. */
  readonly normBound: number;
  /** Divisor of a value's sum: the weight of all who send its chunk, or only of those who sent the value itself. */
  readonly normalize: Normalization;
}

/** What clipping did to a row. */
export interface Clip {
  readonly worker: string;
  readonly late: boolean;
  readonly norm: number;
  /** Factor applied to its values; 1 when it is not clipped. */
  readonly scale: number;
}

export interface ClippedMean extends Mean {
  readonly clips: readonly Clip[];
}

/**
 * The mean of each chunk over the rows that contain it, summed in order of worker key, late rows last; the order of the input
 * does not matter. Throws without rows.
 */
export function clippedMean(
  rows: readonly ClippedRow[],
  { size, normBound, normalize }: ClippedMeanOptions,
): ClippedMean {
  if (rows.length === 0) throw new RangeError('the mean of no contributions is undefined');
  const ordered = [...rows].sort(
    (a, b) => Number(a.late) - Number(b.late) || compareCodePoints(a.worker, b.worker),
  );
  const clips = clip(ordered, normBound);
  const mean = new Float64Array(size);
  const weights = new Float64Array(chunkCount(size));
  const senders = normalize === 'senders' ? new Float64Array(size) : undefined;
  ordered.forEach(({ delta, weight }, i) => {
    const scaled = weight * clips[i]!.scale;
    for (let position = 0; position < delta.chunks.length; position++) {
      const chunk = delta.chunks[position]!;
      delta.addChunk(position, scaled, mean, chunk * CHUNK_LENGTH);
      weights[chunk] = weights[chunk]! + weight;
    }
    if (senders) weighPartial(senders, delta, weight);
  });
  const moved: number[] = [];
  weights.forEach((weight, chunk) => {
    if (weight === 0) return;
    moved.push(chunk);
    const end = Math.min(size, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) {
      // a value that nobody sent stays zero
      mean[i] = mean[i]! / (senders?.[i] || weight);
    }
  });
  return { mean, moved: Uint32Array.from(moved), clips };
}

function clip(rows: readonly ClippedRow[], normBound: number): readonly Clip[] {
  const norms = rows.map(({ delta }) => normOf(delta));
  // rows without any chunk (a newcomer that owns none) must not pull the median to zero
  const sent = norms.filter((_, i) => rows[i]!.delta.chunks.length > 0);
  const bound = normBound === 0 ? Number.POSITIVE_INFINITY : normBound * lowerMedian(sent);
  return rows.map(({ worker, late }, i) => {
    const norm = norms[i]!;
    return { worker, late, norm, scale: norm > bound ? bound / norm : 1 };
  });
}

/** The middle value, or the lower of the two middle ones; 0 of none. */
function lowerMedian(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
}

/** L2 norm, summed in index order. */
export function normOf(delta: PartialVector): number {
  const room = new Float64Array(CHUNK_LENGTH);
  let sum = 0;
  for (let position = 0; position < delta.chunks.length; position++) {
    room.fill(0);
    delta.addChunk(position, 1, room, 0);
    for (let i = 0; i < CHUNK_LENGTH; i++) sum += room[i]! * room[i]!;
  }
  return Math.sqrt(sum);
}
