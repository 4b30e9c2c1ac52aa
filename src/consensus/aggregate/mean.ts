/**
 * The weighted mean of a round's contributions (DiLoCo, arXiv 2311.08105), chunk by chunk: an f64 sum in a fixed order
 * and one division, so that all workers get the same bits. Chunks that no worker sent stay unchanged.
 */
import type { Normalization } from '../../run/settings.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import {
  CHUNK_LENGTH,
  chunkCount,
  type PartialVector,
  weighPartial,
} from '../../tensor/partial-vector.ts';

/** One contribution, as an aggregation rule takes it. */
export interface Row {
  readonly worker: string;
  /** Event id; orders several rows of one worker. */
  readonly id: string;
  /** Whether it was made for an earlier round; late rows are summed last. */
  readonly late: boolean;
  readonly delta: PartialVector;
  readonly weight: number;
  /** Factor applied to its values, in (0, 1]; 1 if it is not clipped. */
  readonly scale: number;
}

export interface MeanOptions {
  /** Length of the flat parameter vector. */
  readonly size: number;
  /** Divisor of a sum: the weight of all workers that sent the chunk, or only of those that sent the value itself. */
  readonly normalize: Normalization;
}

/** The mean of the deltas of a round. */
export interface Mean {
  /** Mean Δ, dense f64[size]; zero outside the chunks in `moved`. */
  readonly mean: Float64Array;
  /** Chunks that at least one worker sent, ascending; parameters and momentum of all other chunks stay unchanged. */
  readonly moved: Uint32Array;
}

/** Computes a mean of rows; the result must not depend on their order. */
export type MeanRule = (rows: readonly Row[], options: MeanOptions) => Mean;

/** Returns the weight of a contribution trained on `examples` examples; `cap` is the largest weight of one worker. */
export const weightOf = (
  examples: number | undefined,
  { weights, cap }: { readonly weights: 'examples' | 'equal'; readonly cap: number },
): number => (weights === 'equal' ? 1 : Math.min(cap, examples ?? 1));

/** Returns the rows in the order in which every worker sums them: by lateness, worker key, then event id. */
export const inOrder = <R extends Pick<Row, 'worker' | 'id' | 'late'>>(rows: readonly R[]): R[] =>
  [...rows].sort(
    (a, b) =>
      Number(a.late) - Number(b.late) ||
      compareCodePoints(a.worker, b.worker) ||
      compareCodePoints(a.id, b.id),
  );

/** Returns the weighted sum of all rows and the divisor of every value. Throws a RangeError if there are no rows. */
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
  // a value that no worker sent stays zero, whatever the divisor
  const divisorOf = (index: number) =>
    senders?.[index] || weights[Math.floor(index / CHUNK_LENGTH)]!;
  return { sum, moved, divisorOf };
}

/** Returns the mean of each chunk over the workers that sent it. */
export const weightedMean: MeanRule = (rows, options) => {
  const { sum, moved, divisorOf } = sumRows(rows, options);
  for (const chunk of moved) {
    const end = Math.min(options.size, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) sum[i] = sum[i]! / divisorOf(i);
  }
  return { mean: sum, moved };
};
