/**
 * Centered clipping (arXiv 2012.10333): from a middle, go by the mean of all rows as seen from there, each cut to a radius, a few times. It
 * begins at the row that is closest to half of the others, which an honest majority keeps among its own; the radius is the lower median
 * of the rows' distances, anew in each step.
 */
import { type Distances, lowerMedian, othersOf, squaresToMean } from './distances.ts';

const STEPS = 5;

/** Weights of the rows, their sum 1. */
export function centeredClip(distances: Distances): Float64Array {
  const { count } = distances;
  const weights = new Float64Array(count);
  weights[middleRow(distances)] = 1;
  for (let step = 0; step < STEPS; step++) {
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
