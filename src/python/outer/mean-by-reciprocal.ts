/**
 * The mean of rounds of profile `nostrain/0`, in the operation order of the Python reference: one multiplication by the reciprocal of
 * the total weight, where the core divides (docs/decisions/0002-mean-by-reciprocal.md).
 */
import { type MeanRule, sumRows } from '../../consensus/aggregate/mean.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';

export const meanByReciprocal: MeanRule = (rows, options) => {
  const { sum, moved, divisorOf } = sumRows(rows, options);
  for (const chunk of moved) {
    const end = Math.min(options.size, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) sum[i] = sum[i]! * (1 / divisorOf(i));
  }
  return { mean: sum, moved };
};
