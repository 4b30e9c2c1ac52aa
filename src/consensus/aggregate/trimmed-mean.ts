/** The trimmed mean (Yin et al., arXiv 1803.01498): of each value without the f smallest and the f largest, as far as one is left. */

/** Of values that ascend. */
export function trimmedMean(ascending: Float64Array, hostile: number): number {
  const cut = Math.min(hostile, (ascending.length - 1) >> 1);
  const end = ascending.length - cut;
  let sum = 0;
  for (let i = cut; i < end; i++) sum += ascending[i]!;
  return sum / (end - cut);
}
