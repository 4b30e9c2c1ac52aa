/** Nearest-neighbour mixing (NNM, arXiv 2302.01772): each row becomes the mean of the n - f rows nearest to it, itself among them, before any rule. */
import type { Distances, Mixes } from './distances.ts';

/** Of equal distances the earlier row is nearer, but none is nearer to a row than itself. */
export function nearestNeighbors({ count, squared }: Distances, hostile: number): Mixes {
  const near = Math.max(1, count - hostile);
  return Array.from({ length: count }, (_, i) => {
    const distance = (j: number) => (j === i ? -1 : squared[i * count + j]!);
    const order = Array.from({ length: count }, (_, j) => j).sort(
      (a, b) => distance(a) - distance(b) || a - b,
    );
    const weights = new Float64Array(count);
    for (const j of order.slice(0, near)) weights[j] = 1 / near;
    return weights;
  });
}
