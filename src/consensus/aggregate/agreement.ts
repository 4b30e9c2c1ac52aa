/**
 * Measures how far the contributions of a round agree, to scale the outer learning rate: contributions that agree keep
 * the full rate, opposite ones get the smallest. Only directions count, and only in chunks that several workers sent.
 */
import { BUFFER_STRIDE, eachChunk } from './distances.ts';
import { inOrder, type Row } from './mean.ts';
import { rmsOf } from './norm-bound.ts';

/** Returns the mean cosine between rows, in [-1, 1]; 1 if no chunk was sent by two rows. */
export function agreementOf(rows: readonly Row[]): number {
  const sorted = inOrder(rows).flatMap((row) => {
    const size = rmsOf(row.delta);
    return size > 0 ? [{ ...row, scale: 1 / size }] : [];
  });
  let common = 0;
  let most = 0;
  eachChunk(sorted, ({ values, senders, length }) => {
    if (senders.length < 2) return;
    const sum = new Float64Array(length);
    const energies = senders.map((i) => {
      let energy = 0;
      for (let k = 0; k < length; k++) {
        const value = values[i * BUFFER_STRIDE + k]!;
        sum[k]! += value;
        energy += value * value;
      }
      return energy;
    });
    let together = 0;
    for (const value of sum) together += value * value;
    let lengths = 0;
    let energy = 0;
    for (const square of energies) {
      lengths += Math.sqrt(square);
      energy += square;
    }
    common += together - energy;
    most += lengths * lengths - energy;
  });
  return most > 0 ? Math.max(-1, Math.min(1, common / most)) : 1;
}

/** Returns the factor for the outer learning rate, between `least` and 1; `agreement` is what `agreementOf` returns. */
export const rateFor = (agreement: number, least: number): number =>
  least + (1 - least) * Math.max(0, Math.min(1, agreement));
