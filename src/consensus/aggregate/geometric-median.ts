/**
 * The geometric median, smoothed (Weiszfeld's steps as RFA takes them, arXiv 1912.13445): each row weighs 1 / max(nu, its distance), again and
 * again. nu is a tenth of a typical distance between rows, which less than half of them cannot make larger than that of honest ones.
 */
import { type Distances, lowerMedian, othersOf, squaresToMean } from './distances.ts';

const STEPS = 32;
const SMOOTHING = 0.1;

/** Weights of the rows, their sum 1. */
export function geometricMedian(distances: Distances): Float64Array {
  const { count } = distances;
  const least = SMOOTHING * typicalDistance(distances);
  let weights = new Float64Array(count).fill(1 / count);
  // half of the rows are the same: there is no better place
  if (least === 0) return onSame(distances);
  for (let step = 0; step < STEPS; step++) {
    const squares = squaresToMean(distances, weights);
    const next = squares.map((square) => 1 / Math.max(least, Math.sqrt(square)));
    let sum = 0;
    for (const weight of next) sum += weight;
    weights = next.map((weight) => weight / sum);
  }
  return weights;
}

/** How far a row in the middle has a row in the middle of the others. */
const typicalDistance = (distances: Distances): number =>
  Math.sqrt(
    lowerMedian(
      Float64Array.from({ length: distances.count }, (_, i) => lowerMedian(othersOf(distances, i))),
    ),
  );

/** All weight on the rows that are as the first one which half of the others equal. */
function onSame(distances: Distances): Float64Array {
  const { count, squared } = distances;
  const rows = Array.from({ length: count }, (_, i) => i);
  const first = rows.find((i) => lowerMedian(othersOf(distances, i)) === 0) ?? 0;
  const isSame = rows.map((i) => squared[first * count + i] === 0);
  const same = isSame.filter(Boolean).length;
  return Float64Array.from(isSame, (is) => (is ? 1 / same : 0));
}
