/**
 * Bounds the norm (root mean square) of contributions: larger ones are scaled down, so that no worker decides the outer
 * step alone. The bound follows from the rows that vote: c times their lower median, or, with one or two of them, the
 * larger of the smaller one and the typical size of earlier rounds (in the first round the size of the parameters). In
 * either case it is at most twice the typical size of the last eight rounds, so that no majority of keys can raise it
 * quickly. Deterministic: every worker computes the same bounds.
 */
import { type PartialVector, visitChunks } from '../../tensor/partial-vector.ts';

/** Number of earlier rounds whose typical sizes bound a round of one or two rows. */
const HISTORY_ROUNDS = 8;
/** Smallest number of rows with a majority, whose median one hostile row cannot set. */
const MAJORITY_ROWS = 3;
/** The bound is at most this many times the typical size of a full history. */
const MOST_OF_TYPICAL = 2;
/** A full history takes in a size of at most this many times its largest: the bound grows no faster than that. */
const MOST_GROWTH = 1.1;
/**
 * Until the history is full, the bound is at most this many times its largest size: during the warm-up of the learning
 * rate, steps grow faster than later. The first three rounds of a linear warm-up are like 1, 3 and 5.
 */
const MOST_EARLY_GROWTH = 4;
/** Bound for one or two rows in the first round if all parameters are zero. */
const FIRST_OF_ZEROS = 1000;

/** Inputs of a round's bound other than its rows. */
export interface NormContext {
  /** c: a row may be c times as large as the lower median of the rows; 0 disables the bound. */
  readonly normBound: number;
  /** Typical root mean square of the rows of each recent round, oldest first; empty in the first round. */
  readonly history: readonly number[];
  /** Root mean square of the shared parameters; needed only if there are fewer than three rows. */
  readonly parameters: number | (() => number);
  /**
   * Weight of the vote of each row; default 1. Its stake in a run with stakes, 0 for a guest (guests.ts): neither many
   * rows of little stake nor fresh keys may set the bound.
   */
  readonly weights?: readonly number[];
}

export interface NormBounds {
  /** Factor for each row, in (0, 1]; 1 if the row is within the bound. */
  readonly scales: readonly number[];
  /** Largest root mean square of a row; larger rows are scaled down to it. */
  readonly bound: number;
  /** Typical root mean square of the rows, at most the bound; 0 if no row counts. */
  readonly typical: number;
}

/** Returns the bound of a round and the factor of each row, in the order of the rows. */
export function boundRows(rows: readonly PartialVector[], context: NormContext): NormBounds {
  const { normBound, weights } = context;
  const sizes = rows.map(rmsOf);
  // rows without any chunk (a newcomer that owns none) must not pull the median to zero
  const sent = sizes
    .map((size, i) => ({ size, weight: weights?.[i] ?? 1 }))
    .filter(({ weight }, i) => weight > 0 && rows[i]!.chunks.length > 0)
    .sort((a, b) => a.size - b.size);
  const bound = normBound === 0 ? Number.POSITIVE_INFINITY : boundOf(sent, context);
  // of two middle rows the larger one: next to an empty row an honest one stays typical
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

/** Returns the history for the next round, after a round whose typical size was `typical`; 0 adds nothing. */
export function nextSizes(history: readonly number[], typical: number): readonly number[] {
  if (typical === 0) return history;
  const most =
    history.length < HISTORY_ROUNDS
      ? typical
      : Math.min(typical, MOST_GROWTH * Math.max(...history));
  return [...history, most].slice(-HISTORY_ROUNDS);
}

interface SentRow {
  readonly size: number;
  readonly weight: number;
}

/** Returns the bound; `sent` is sorted by size. */
function boundOf(
  sent: readonly SentRow[],
  { normBound, history, parameters }: NormContext,
): number {
  const median = lowerMedian(sent);
  const most = mostOf(history);
  if (sent.length >= MAJORITY_ROWS) return Math.min(most, normBound * median);
  const size = typeof parameters === 'number' ? parameters : parameters();
  const first = size > 0 ? size : FIRST_OF_ZEROS;
  const floor = history.length === 0 ? first : typicalOf(history);
  return Math.min(history.length === 0 ? first : most, Math.max(floor, median));
}

/** Returns the largest bound after these rounds; infinite before the first. */
function mostOf(history: readonly number[]): number {
  if (history.length === 0) return Number.POSITIVE_INFINITY;
  return history.length < HISTORY_ROUNDS
    ? MOST_EARLY_GROWTH * Math.max(...history)
    : MOST_OF_TYPICAL * typicalOf(history);
}

/** Returns the lower median of the sizes of recent rounds. */
const typicalOf = (history: readonly number[]): number =>
  lowerMedian(history.map((size) => ({ size, weight: 1 })).sort((a, b) => a.size - b.size));

/** Returns the weighted lower median of sizes; 0 if there are no rows. */
const lowerMedian = (sorted: readonly SentRow[]): number =>
  middleOf(sorted, (below, all) => 2 * below >= all);

/** Returns the first size, in ascending order, at which the weight so far is enough; 0 if there are no rows. */
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

/** Returns the root mean square over all values of the chunks a row sent, summed in index order. */
export function rmsOf(delta: PartialVector): number {
  let sum = 0;
  let count = 0;
  visitChunks(delta, (values) => {
    for (const value of values) sum += value * value;
    count += values.length;
  });
  return count === 0 ? 0 : Math.sqrt(sum / count);
}

/** Returns the root mean square of a vector, summed in index order. */
export function rootMeanSquare(values: {
  readonly length: number;
  readonly [i: number]: number;
}): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]! * values[i]!;
  return values.length === 0 ? 0 : Math.sqrt(sum / values.length);
}
