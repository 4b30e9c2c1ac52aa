/**
 * The weighted mean of a round's contributions (DiLoCo, arXiv 2311.08105) per chunk: an f64 sum in a fixed order and
 * one division. A chunk that nobody sent does not move.
 */
import type { Normalization } from '../../run/settings.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import {
  CHUNK_LENGTH,
  chunkCount,
  type PartialVector,
  weighPartial,
} from '../../tensor/partial-vector.ts';

export interface Row {
  readonly worker: string;
  /** Id of its event: the order among rows of one worker. */
  readonly id: string;
  /** Whether it was made for an earlier round than the others; such rows are summed last. */
  readonly late: boolean;
  readonly delta: PartialVector;
  readonly weight: number;
  /** Factor applied to its values, in (0, 1]; 1 when it is not clipped. */
  readonly scale: number;
}

export interface MeanOptions {
  /** Length of the flat parameter vector. */
  readonly size: number;
  /** Divisor of a value's sum: the weight of all who send its chunk, or only of those who sent the value itself. */
  readonly normalize: Normalization;
}

export interface Mean {
  /** Mean Δ, dense f64[size]; zero outside the chunks in `moved`. */
  readonly mean: Float64Array;
  /** Chunks that at least one worker sent, ascending; parameters and momentum of all other chunks stay as they are. */
  readonly moved: Uint32Array;
}

/** How a mean of rows is taken; the order of the input must not matter. */
export type MeanRule = (rows: readonly Row[], options: MeanOptions) => Mean;

/** What a contribution of so many examples weighs; `cap` is the largest weight of a single worker. */
export const weightOf = (
  examples: number | undefined,
  { weights, cap }: { readonly weights: 'examples' | 'equal'; readonly cap: number },
): number => (weights === 'equal' ? 1 : Math.min(cap, examples ?? 1));

/** The order every worker sums rows in: by lateness, worker key, then event id. */
export const inOrder = <R extends Pick<Row, 'worker' | 'id' | 'late'>>(rows: readonly R[]): R[] =>
  [...rows].sort(
    (a, b) =>
      Number(a.late) - Number(b.late) ||
      compareCodePoints(a.worker, b.worker) ||
      compareCodePoints(a.id, b.id),
  );

/** The sum of all rows and, for every value, what it is to be divided by; throws without rows. */
export function sumRows(
  rows: readonly Row[],
  { size, normalize }: MeanOptions,
): { readonly sum: Float64Array; readonly moved: Uint32Array; divisorOf(index: number): number } {
  if (rows.length === 0) throw new RangeError('the mean of no contributions is undefined');
  const sum = new Float64Array(size);
  const weights = new Float64Array(chunkCount(size));
  const senders = normalize === 'senders' ? new Float64Array(size) : undefined;
  for (const { delta, weight, scale } of inOrder(rows)) {
    if (delta.size !== size) {
      throw new RangeError(`${delta.size} values do not fit a vector of ${size}`);
    }
    for (let position = 0; position < delta.chunks.length; position++) {
      const chunk = delta.chunks[position]!;
      delta.addChunk(position, weight * scale, sum, chunk * CHUNK_LENGTH);
      weights[chunk] = weights[chunk]! + weight;
    }
    if (senders) weighPartial(senders, delta, weight);
  }
  const moved = Uint32Array.from([...weights.keys()].filter((chunk) => weights[chunk]! > 0));
  // a value that nobody sent stays zero, whatever it is divided by
  const divisorOf = (index: number) =>
    senders?.[index] || weights[Math.floor(index / CHUNK_LENGTH)]!;
  return { sum, moved, divisorOf };
}

/** The mean of each chunk over those who sent it, by division. */
export const weightedMean: MeanRule = (rows, options) => {
  const { sum, moved, divisorOf } = sumRows(rows, options);
  for (const chunk of moved) {
    const end = Math.min(options.size, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) sum[i] = sum[i]! / divisorOf(i);
  }
  return { mean: sum, moved };
};
