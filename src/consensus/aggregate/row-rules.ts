/**
 * Aggregation rules that weigh whole contributions by their distances (Krum, Multi-Krum, geometric median, centered
 * clipping), and the mixing steps that may precede any rule (nearest neighbours, bucketing).
 */

import { utf8 } from '../../base/bytes.ts';
import { sha256Hex } from '../../base/hash.ts';
import { BUCKET_ROWS } from '../../run/aggregation.ts';
import { type Distances, lowerMedian, type Mixes, othersOf, squaresToMean } from './distances.ts';
import type { Row } from './mean.ts';

/** Krum (Blanchard et al., 2017): all weight on the row with the least sum of squared distances to its nearest rows. */
export const krum = (distances: Distances, hostile: number): Float64Array =>
  weightsOf(distances, byScore(distances, hostile).slice(0, 1));

/** Multi-Krum: equal weights for the n - f rows with the best Krum scores. */
export const multiKrum = (distances: Distances, hostile: number): Float64Array =>
  weightsOf(distances, byScore(distances, hostile).slice(0, distances.count - hostile));

/** Returns the indices of at least 2 f + 3 rows by Krum score; at equal scores the earlier row comes first. */
function byScore(distances: Distances, hostile: number): readonly number[] {
  const { count } = distances;
  const scores = Array.from({ length: count }, (_, i) => {
    let sum = 0;
    for (const square of othersOf(distances, i).subarray(0, count - hostile - 2)) sum += square;
    return sum;
  });
  return scores.map((_, i) => i).sort((a, b) => scores[a]! - scores[b]!);
}

function weightsOf({ count }: Distances, chosen: readonly number[]): Float64Array {
  const weights = new Float64Array(count);
  for (const i of chosen) weights[i] = 1;
  return weights;
}

/** Iterations of the Weiszfeld algorithm; a fixed number, so that all workers get the same bits. */
const WEISZFELD_STEPS = 32;
/** Smallest distance used as a divisor, as a share of the typical distance. */
const SMOOTHING = 0.1;

/** Geometric median (RFA, Pillutla et al., 2019) by the smoothed Weiszfeld algorithm; returns weights with sum 1. */
export function geometricMedian(distances: Distances): Float64Array {
  const { count } = distances;
  const least = SMOOTHING * typicalDistance(distances);
  let weights = new Float64Array(count).fill(1 / count);
  // half of the rows are identical, so the median is that point
  if (least === 0) return onSame(distances);
  for (let step = 0; step < WEISZFELD_STEPS; step++) {
    const squares = squaresToMean(distances, weights);
    const next = squares.map((square) => 1 / Math.max(least, Math.sqrt(square)));
    let sum = 0;
    for (const weight of next) sum += weight;
    weights = next.map((weight) => weight / sum);
  }
  return weights;
}

/** Returns the median over rows of each row's median distance to the others. */
const typicalDistance = (distances: Distances): number =>
  Math.sqrt(
    lowerMedian(
      Float64Array.from({ length: distances.count }, (_, i) => lowerMedian(othersOf(distances, i))),
    ),
  );

/** Puts all weight on the rows equal to the first row that half of the others equal. */
function onSame(distances: Distances): Float64Array {
  const { count, squared } = distances;
  const rows = Array.from({ length: count }, (_, i) => i);
  const first = rows.find((i) => lowerMedian(othersOf(distances, i)) === 0)!;
  const isSame = rows.map((i) => squared[first * count + i] === 0);
  const same = isSame.filter(Boolean).length;
  return Float64Array.from(isSame, (is) => (is ? 1 / same : 0));
}

/** Iterations of centered clipping; a fixed number, so that all workers get the same bits. */
const CLIP_STEPS = 5;

/** Centered clipping (Karimireddy et al., 2021) from the middle row, with the median distance as radius. */
export function centeredClip(distances: Distances): Float64Array {
  const { count } = distances;
  const weights = new Float64Array(count);
  weights[middleRow(distances)] = 1;
  for (let step = 0; step < CLIP_STEPS; step++) {
    const gaps = squaresToMean(distances, weights).map((square) => Math.sqrt(square));
    const radius = lowerMedian(gaps);
    const parts = gaps.map((gap) => (gap > radius ? radius / gap : 1) / count);
    let moved = 0;
    for (const part of parts) moved += part;
    for (let i = 0; i < count; i++) weights[i] = weights[i]! * (1 - moved) + parts[i]!;
  }
  return weights;
}

function middleRow(distances: Distances): number {
  const reach = Array.from({ length: distances.count }, (_, i) =>
    lowerMedian(othersOf(distances, i)),
  );
  return reach.indexOf(Math.min(...reach));
}

/**
 * Replaces each row by the mean of its n - f nearest rows, itself included (nearest-neighbour mixing). At equal
 * distances the earlier row is nearer, but a row is always nearest to itself.
 */
export function nearestNeighbors({ count, squared }: Distances, hostile: number): Mixes {
  const near = Math.max(1, count - hostile);
  return Array.from({ length: count }, (_, i) => {
    const distance = (j: number) => (j === i ? -1 : squared[i * count + j]!);
    const order = Array.from({ length: count }, (_, j) => j).sort(
      (a, b) => distance(a) - distance(b),
    );
    const weights = new Float64Array(count);
    for (const j of order.slice(0, near)) weights[j] = 1 / near;
    return weights;
  });
}

/**
 * Returns the means of random buckets of rows. `seed` must be unpredictable at the time the rows were sent, such as
 * the entropy of the round.
 */
export function bucketsOf(rows: readonly Pick<Row, 'worker' | 'id'>[], seed: string): Mixes {
  const drawn = rows.map(({ worker, id }, i) => ({
    i,
    draw: sha256Hex(utf8(`nostrain/bucketing\n${seed}\n${worker}\n${id}`)),
  }));
  const order = drawn.sort((a, b) => (a.draw < b.draw ? -1 : 1)).map(({ i }) => i);
  return Array.from({ length: Math.ceil(rows.length / BUCKET_ROWS) }, (_, bucket) => {
    const members = order.slice(bucket * BUCKET_ROWS, (bucket + 1) * BUCKET_ROWS);
    const weights = new Float64Array(rows.length);
    for (const i of members) weights[i] = 1 / members.length;
    return weights;
  });
}
