/**
 * Bounds the size of contributions: larger rows are scaled down, so that no row decides the step alone. For three rows
 * or more the bound is c times their lower median; one or two are bounded by the smaller one or by earlier rounds, at
 * first by the parameters. Every worker finds the same.
 */
import { CHUNK_LENGTH, chunkLength, type PartialVector } from '../../tensor/partial-vector.ts';

/** Rounds that the floor under the bound looks back on. */
const HISTORY_ROUNDS = 8;
/** Rows that have a majority. */
const MAJORITY_ROWS = 3;
/** One or two rows may be so many times larger than the largest typical one of the rounds looked back on. */
const MOST_GROWTH = 4;
/** As large as one or two rows may be in the first round where all parameters are zero. */
const FIRST_OF_ZEROS = 1000;

/** What the bound of a round follows from, beside its own rows. */
export interface NormContext {
  /** c: a row may be c times as large as the lower median of the rows; 0 bounds nothing. */
  readonly normBound: number;
  /** Typical root mean square of rows of the last rounds, oldest first; empty in the first. */
  readonly history: readonly number[];
  /** Root mean square of the shared parameters, asked for where one or two rows have no majority. */
  readonly parameters: number | (() => number);
  /** What each row weighs in a run with stakes, else 1: many rows of little stake must not set the bound. */
  readonly weights?: readonly number[];
}

export interface NormBounds {
  /** Factor for each row, in (0, 1]; 1 where the row is within the bound. */
  readonly scales: readonly number[];
  /** Root mean square that values are scaled down to. */
  readonly bound: number;
  /** Typical root mean square of the rows, within the bound; 0 where there is none. */
  readonly typical: number;
}

/** Bounds for the rows of a round, in their order. */
export function boundRows(rows: readonly PartialVector[], context: NormContext): NormBounds {
  const { normBound, weights } = context;
  const sizes = rows.map(rmsOf);
  // rows without any chunk (a newcomer that owns none) must not pull the median to zero
  const sent = sizes
    .map((size, i) => ({ size, weight: weights?.[i] ?? 1 }))
    .filter(({ weight }, i) => weight > 0 && rows[i]!.chunks.length > 0)
    .sort((a, b) => a.size - b.size);
  const bound = normBound === 0 ? Number.POSITIVE_INFINITY : boundOf(sent, context);
  // where two are in the middle the larger one: beside a row of nothing an honest one stays typical
  const typical = Math.min(
    bound,
    middleOf(sent, (below, all) => 2 * below > all),
  );
  return {
    scales: sizes.map((size) => (size > bound ? bound / size : 1)),
    bound,
    typical,
  };
}

/** The history of the round that follows one whose rows were typically that large. */
export const nextSizes = (history: readonly number[], typical: number): readonly number[] =>
  typical > 0 ? [...history, typical].slice(-HISTORY_ROUNDS) : history;

interface SentRow {
  readonly size: number;
  readonly weight: number;
}

/** `sent` ascending. */
function boundOf(
  sent: readonly SentRow[],
  { normBound, history, parameters }: NormContext,
): number {
  const median = lowerMedian(sent);
  if (sent.length >= MAJORITY_ROWS) return normBound * median;
  const size = typeof parameters === 'number' ? parameters : parameters();
  const first = size > 0 ? size : FIRST_OF_ZEROS;
  const previousSizes = history.map((typical) => ({ size: typical, weight: 1 }));
  const floor =
    history.length === 0 ? first : lowerMedian(previousSizes.sort((a, b) => a.size - b.size));
  const most = Math.max(first, ...history.map((typical) => MOST_GROWTH * typical));
  return Math.min(most, Math.max(floor, median));
}

/** The size that half of the weight does not exceed; 0 of none. */
const lowerMedian = (sorted: readonly SentRow[]): number =>
  middleOf(sorted, (below, all) => 2 * below >= all);

/** The first size, of ascending ones, up to which the rows weigh enough. */
function middleOf(
  sorted: readonly SentRow[],
  isEnough: (below: number, all: number) => boolean,
): number {
  const all = sorted.reduce((sum, { weight }) => sum + weight, 0);
  let below = 0;
  for (const { size, weight } of sorted) {
    below += weight;
    if (isEnough(below, all)) return size;
  }
  return 0;
}

/** Root mean square over all values of the chunks that a row speaks of; summed in index order. */
export function rmsOf(delta: PartialVector): number {
  const room = new Float64Array(CHUNK_LENGTH);
  let sum = 0;
  let count = 0;
  for (let position = 0; position < delta.chunks.length; position++) {
    room.fill(0);
    delta.addChunk(position, 1, room, 0);
    for (let i = 0; i < CHUNK_LENGTH; i++) sum += room[i]! * room[i]!;
    count += chunkLength(delta.size, delta.chunks[position]!);
  }
  return count === 0 ? 0 : Math.sqrt(sum / count);
}

/** Root mean square of a vector, summed in index order. */
export function rootMeanSquare(values: {
  readonly length: number;
  readonly [i: number]: number;
}): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]! * values[i]!;
  return values.length === 0 ? 0 : Math.sqrt(sum / values.length);
}
