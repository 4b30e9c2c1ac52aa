/**
 * Aggregation rule of uncertified rounds: the weighted mean of the accepted deltas (DiLoCo, arXiv 2311.08105), chunk by chunk.
 * An f64 sum in order of worker key, then one multiplication by the reciprocal of the total weight, as in the Python reference.
 * A chunk that nobody sent has no mean and does not move.
 */
import type { Contribution } from '../../run/contribution.ts';
import type { Normalization } from '../../run/settings.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import { addPartial, CHUNK_LENGTH, chunkCount, weighPartial } from '../../tensor/partial-vector.ts';

export interface MeanOptions {
  /** Length of the flat parameter vector. */
  readonly size: number;
  /** `examples`: a contribution weighs its example count (1 when absent), at most `cap`. `equal`: everyone weighs 1. */
  readonly weights: 'examples' | 'equal';
  /** Largest weight of a single worker. */
  readonly cap: number;
  /** Divisor of a value's sum: the weight of all who send its chunk (as the reference does), or only of those who sent the value. */
  readonly normalize: Normalization;
}

export interface Mean {
  /** Mean Δ, dense f64[size]; zero outside the chunks in `moved`. */
  readonly mean: Float64Array;
  /** Chunks that at least one worker sent, ascending; parameters and momentum of all other chunks stay as they are. */
  readonly moved: Uint32Array;
}

/** The weight of one contribution. */
export const weightOf = (
  examples: number | undefined,
  { weights, cap }: Pick<MeanOptions, 'weights' | 'cap'>,
): number => (weights === 'equal' ? 1 : Math.min(cap, examples ?? 1));

/** The contributions in the order every worker sums them: by worker key, then event id. */
export const inOrder = (cohort: readonly Contribution[]): Contribution[] =>
  [...cohort].sort(
    (a, b) => compareCodePoints(a.worker, b.worker) || compareCodePoints(a.eventId, b.eventId),
  );

/** The mean of each chunk over those who sent it; the order of the input does not matter. Throws without contributions. */
export function meanDelta(cohort: readonly Contribution[], options: MeanOptions): Mean {
  if (cohort.length === 0) throw new RangeError('the mean of no contributions is undefined');
  const { size } = options;
  const mean = new Float64Array(size);
  const weights = new Float64Array(chunkCount(size));
  const senders = options.normalize === 'senders' ? new Float64Array(size) : undefined;
  for (const { delta, examples } of inOrder(cohort)) {
    const weight = weightOf(examples, options);
    addPartial(mean, delta, weight);
    for (const chunk of delta.chunks) weights[chunk] = weights[chunk]! + weight;
    if (senders) weighPartial(senders, delta, weight);
  }
  const moved: number[] = [];
  weights.forEach((weight, chunk) => {
    if (weight === 0) return;
    moved.push(chunk);
    const share = 1 / weight;
    const end = Math.min(size, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) {
      // a value that nobody sent stays zero
      mean[i] = mean[i]! * (senders && senders[i]! > 0 ? 1 / senders[i]! : share);
    }
  });
  return { mean, moved: Uint32Array.from(moved) };
}
