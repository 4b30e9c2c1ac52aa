/**
 * Coordinate-wise aggregation rules: each value of the result depends only on the values that all contributions have at
 * that index (a column). Trimmed mean and coordinate median (Yin et al., arXiv 1803.01498).
 */
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { BUFFER_STRIDE, type ChunkBuffer, eachChunk, type Mixes } from './distances.ts';
import type { Mean, Row } from './mean.ts';

/** Returns one value for a column, whose values are ascending; `hostile` is f, the assumed number of attackers. */
export type ColumnRule = (ascending: Float64Array, hostile: number) => number;

/** Returns the mean without the f smallest and the f largest values; at least one value is kept. */
export function trimmedMean(ascending: Float64Array, hostile: number): number {
  const cut = Math.min(hostile, (ascending.length - 1) >> 1);
  const end = ascending.length - cut;
  let sum = 0;
  for (let i = cut; i < end; i++) sum += ascending[i]!;
  return sum / (end - cut);
}

/** Returns the middle value, or the mean of the two middle ones. */
export function coordinateMedian(ascending: Float64Array): number {
  const middle = ascending.length >> 1;
  const upper = ascending[middle]!;
  return ascending.length % 2 === 1 ? upper : (ascending[middle - 1]! + upper) / 2;
}

export interface ColumnOptions {
  /** Length of the flat parameter vector. */
  readonly size: number;
  readonly hostile: number;
  /** A chunk sent by fewer rows stays unchanged: it has no honest majority. */
  readonly leastRows: number;
  /** Means that replace the rows, if rows are mixed before the rule (nearest neighbours or bucketing). */
  readonly mixes: Mixes | undefined;
}

/** Applies a rule to every column of the rows. */
export function chooseColumns(
  rows: readonly Row[],
  choose: ColumnRule,
  { size, hostile, leastRows, mixes }: ColumnOptions,
): Mean {
  const mean = new Float64Array(size);
  const moved: number[] = [];
  const mixed = mixes && new Float64Array(mixes.length * BUFFER_STRIDE);
  eachChunk(rows, (buffer) => {
    if (buffer.senders.length < leastRows) return;
    moved.push(buffer.chunk);
    if (mixed) mixInto(mixed, buffer, mixes);
    const from = mixed ?? buffer.values;
    const lanes = mixed ? mixes.map((_, k) => k) : buffer.senders;
    const column = new Float64Array(lanes.length);
    for (let k = 0; k < buffer.length; k++) {
      for (let n = 0; n < lanes.length; n++) column[n] = from[lanes[n]! * BUFFER_STRIDE + k]!;
      sortColumn(column);
      mean[buffer.chunk * CHUNK_LENGTH + k] = choose(column, hostile);
    }
  });
  return { mean, moved: Uint32Array.from(moved) };
}

function mixInto(mixed: Float64Array, { values, length }: ChunkBuffer, mixes: Mixes): void {
  mixed.fill(0);
  mixes.forEach((weights, k) => {
    weights.forEach((weight, i) => {
      if (weight === 0) return;
      const [to, from] = [k * BUFFER_STRIDE, i * BUFFER_STRIDE];
      for (let at = 0; at < length; at++) mixed[to + at]! += weight * values[from + at]!;
    });
  });
}

/** Column length from which the engine's own sort beats insertion sort. */
const MANY = 40;

/** Sorts a column in place, ascending. No value is -0, since each is a sum that began at 0. */
function sortColumn(column: Float64Array): void {
  if (column.length >= MANY) {
    column.sort();
    return;
  }
  for (let i = 1; i < column.length; i++) {
    const value = column[i]!;
    let at = i;
    while (at > 0 && column[at - 1]! > value) {
      column[at] = column[at - 1]!;
      at--;
    }
    column[at] = value;
  }
}
