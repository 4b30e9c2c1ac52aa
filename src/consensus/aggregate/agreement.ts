/**
 * How far the rows of a round agree, for an outer learning rate that follows it: agreeing rows keep the whole rate,
 * opposite rows the least. Each row counts by its direction, and only where others sent the same chunk.
 */
import { eachChunk, ROOM_STRIDE } from './distances.ts';
import { inOrder, type Row } from './mean.ts';
import { rmsOf } from './norm-bound.ts';

/** The mean cosine between rows, 1 where there is no second one to compare with. */
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
        const value = values[i * ROOM_STRIDE + k]!;
        sum[k]! += value;
        energy += value * value;
      }
      return energy;
    });
    let together = 0;
    for (const value of sum) together += value * value;
    let lengths = 0;
    let energy = 0;
    for (const own of energies) {
      lengths += Math.sqrt(own);
      energy += own;
    }
    common += together - energy;
    most += lengths * lengths - energy;
  });
  return most > 0 ? Math.max(-1, Math.min(1, common / most)) : 1;
}

/** What the outer learning rate is multiplied with, between the least and 1. */
export const rateFor = (agreement: number, least: number): number =>
  least + (1 - least) * Math.max(0, Math.min(1, agreement));
