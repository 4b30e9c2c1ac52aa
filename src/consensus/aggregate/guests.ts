/**
 * Adds the contributions of guests to a step. Guests are members of a run in which founders decide that neither founded
 * it nor act for a founder. Anybody can make up any number of such keys, so together they weigh at most a share of the
 * others, and a contribution that points away from the step of the others does not count (compare FLTrust, arXiv
 * 2012.13995).
 */
import {
  CHUNK_LENGTH,
  chunkCount,
  chunksOfPartial,
  type PartialVector,
  visitChunks,
} from '../../tensor/partial-vector.ts';
import { inOrder, type MeanOptions, type Row, weightedMean } from './mean.ts';
import type { Aggregate } from './rules.ts';

/** Weight of all guests together, in weights of all other contributions of the round. */
const MOST_SHARE = 0.25;

interface GuestOptions extends MeanOptions {
  /** Weight of all other contributions. */
  readonly weight: number;
}

/**
 * Returns the step with the contributions of guests. In each chunk that the others moved, it is the mean of their step
 * and of what guests sent; guests move no other chunk.
 */
export function addGuests(
  step: Aggregate,
  guests: readonly Row[],
  { weight, ...options }: GuestOptions,
): Aggregate {
  const moved = new Set(step.moved);
  const there = inOrder(guests).map((row) => ({
    ...row,
    delta: chunksOfPartial(row.delta, (chunk) => moved.has(chunk)),
  }));
  const counted = there.filter(({ delta }) => dotOf(delta, step.mean) > 0);
  const ids = new Set(counted.map(({ id }) => id));
  const dropped = guests.map(({ id }) => id).filter((id) => !ids.has(id));
  const unused = new Set([...step.unused, ...dropped]);
  if (counted.length === 0) return { ...step, unused };
  const { mean: theirs, moved: sent } = weightedMean(counted, options);
  const weights = weightsOf(counted, options.size);
  const mean = step.mean.slice();
  for (const chunk of sent) {
    const share = Math.min(MOST_SHARE, weights[chunk]! / weight);
    const end = Math.min(options.size, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) {
      mean[i] = (mean[i]! + share * theirs[i]!) / (1 + share);
    }
  }
  return { ...step, mean, unused };
}

/** Returns the weight of all senders of each chunk. */
function weightsOf(rows: readonly Row[], size: number): Float64Array {
  const weights = new Float64Array(chunkCount(size));
  for (const { delta, weight } of rows) {
    for (const chunk of delta.chunks) weights[chunk]! += weight;
  }
  return weights;
}

/** Returns the inner product of a delta and a dense vector, summed in index order. */
function dotOf(delta: PartialVector, vector: Float64Array): number {
  let sum = 0;
  visitChunks(delta, (values, chunk) => {
    const from = chunk * CHUNK_LENGTH;
    for (let i = 0; i < values.length; i++) sum += values[i]! * vector[from + i]!;
  });
  return sum;
}
