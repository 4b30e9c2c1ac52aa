/** The coordinate median (Yin et al., arXiv 1803.01498): the middle of each value, or the mean of the two middle ones. */

/** Of values that ascend. */
export function coordinateMedian(ascending: Float64Array): number {
  const middle = ascending.length >> 1;
  const upper = ascending[middle]!;
  return ascending.length % 2 === 1 ? upper : (ascending[middle - 1]! + upper) / 2;
}
