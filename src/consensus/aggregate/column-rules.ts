/**
 * Rules that choose each value from its column, the values that all rows have in that place: the trimmed mean and the
 * coordinate median (Yin et al., arXiv 1803.01498).
 */
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { eachChunk, type Mixes, ROOM_STRIDE, type Room } from './distances.ts';
import type { Mean, Row } from './mean.ts';

/** One value of a column in ascending order. */
export type ColumnRule = (ascending: Float64Array, hostile: number) => number;

/** The mean without the f smallest and the f largest values, of which at least one is left. */
export function trimmedMean(ascending: Float64Array, hostile: number): number {
  const cut = Math.min(hostile, (ascending.length - 1) >> 1);
  const end = ascending.length - cut;
  let sum = 0;
  for (let i = cut; i < end; i++) sum += ascending[i]!;
  return sum / (end - cut);
}

/** The middle value, or the mean of the two middle ones. */
export function coordinateMedian(ascending: Float64Array): number {
  const middle = ascending.length >> 1;
  const upper = ascending[middle]!;
  return ascending.length % 2 === 1 ? upper : (ascending[middle - 1]! + upper) / 2;
}

export interface ColumnOptions {
  /** Length of the flat parameter vector. */
  readonly size: number;
  readonly hostile: number;
  /** A chunk that fewer rows sent does not move: it has no honest majority. */
  readonly leastRows: number;
  /** Means of rows that take the place of the rows. */
  readonly mixes: Mixes | undefined;
}

/** Applies a rule to every column of these rows. */
export function chooseColumns(
  rows: readonly Row[],
  choose: ColumnRule,
  { size, hostile, leastRows, mixes }: ColumnOptions,
): Mean {
  const mean = new Float64Array(size);
  const moved: number[] = [];
  const mixed = mixes && new Float64Array(mixes.length * ROOM_STRIDE);
  eachChunk(rows, (room) => {
    if (room.senders.length < leastRows) return;
    moved.push(room.chunk);
    if (mixed) mixInto(mixed, room, mixes);
    const from = mixed ?? room.values;
    const lanes = mixed ? mixes.map((_, k) => k) : room.senders;
    const column = new Float64Array(lanes.length);
    for (let k = 0; k < room.length; k++) {
      for (let n = 0; n < lanes.length; n++) column[n] = from[lanes[n]! * ROOM_STRIDE + k]!;
      sortColumn(column);
      mean[room.chunk * CHUNK_LENGTH + k] = choose(column, hostile);
    }
  });
  return { mean, moved: Uint32Array.from(moved) };
}

function mixInto(mixed: Float64Array, { values, length }: Room, mixes: Mixes): void {
  mixed.fill(0);
  mixes.forEach((weights, k) => {
    weights.forEach((weight, i) => {
      if (weight === 0) return;
      const [to, from] = [k * ROOM_STRIDE, i * ROOM_STRIDE];
      for (let at = 0; at < length; at++) mixed[to + at]! += weight * values[from + at]!;
    });
  });
}

/** From so many values on the engine's own way is faster. */
const MANY = 40;

/** Ascending, in place. No value is -0: each is a sum that began at 0. */
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
