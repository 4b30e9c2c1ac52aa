/**
 * One table of all rules, and the one way a round applies one: bound the rows, mix them, choose. Rows that a rule leaves out are named, since
 * what they brought belongs back to their authors; with fewer rows than a rule needs nothing moves.
 */
import {
  type Aggregation,
  leastRows,
  type RuleName,
  ruleForms,
  usualAggregation,
} from '../../run/aggregation.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { agreementOf, rateFor } from './agreement.ts';
import { bucketsOf } from './bucketing.ts';
import { centeredClip } from './centered-clip.ts';
import { coordinateMedian } from './coordinate-median.ts';
import {
  type Distances,
  distancesOf,
  eachChunk,
  type Mixes,
  mixedDistances,
  ROOM_STRIDE,
  type Room,
} from './distances.ts';
import { geometricMedian } from './geometric-median.ts';
import { krum, multiKrum } from './krum.ts';
import {
  inOrder,
  type Mean,
  type MeanOptions,
  type MeanRule,
  type Row,
  weightedMean,
} from './mean.ts';
import { nearestNeighbors } from './nearest-neighbors.ts';
import { trimmedMean } from './trimmed-mean.ts';

/** Weights of rows, from the distances between them. */
type RowRule = (distances: Distances, hostile: number) => Float64Array;
/** One value of those that the rows have in one place, ascending. */
type ValueRule = (ascending: Float64Array, hostile: number) => number;

const valueRules: Partial<Readonly<Record<RuleName, ValueRule>>> = {
  'trimmed-mean': trimmedMean,
  'coordinate-median': coordinateMedian,
};

const rowRules: Partial<Readonly<Record<RuleName, RowRule>>> = {
  krum,
  'multi-krum': multiKrum,
  'geometric-median': geometricMedian,
  'centered-clip': centeredClip,
};

export interface AggregateOptions extends MeanOptions {
  readonly aggregation?: Aggregation;
  /** What nobody knew when the rows were sent; bucketing draws by it. */
  readonly seed?: string;
  /** How a mean is taken where the rule is one. */
  readonly meanOf?: MeanRule;
}

/** What rows become. */
export interface Aggregate extends Mean {
  /** Ids of rows of which nothing is in it. */
  readonly unused: ReadonlySet<string>;
  /** What the outer learning rate is multiplied with. */
  readonly rate: number;
}

/** The aggregate of a round's rows; throws without any. The order of the input does not matter. */
export function aggregate(rows: readonly Row[], options: AggregateOptions): Aggregate {
  const { aggregation = usualAggregation, meanOf = weightedMean } = options;
  const { rule, leastRatePermille } = aggregation;
  const found =
    ruleForms[rule] === 'mean'
      ? means(rows, rule, options, meanOf)
      : robust(rows, options, aggregation);
  const least = leastRatePermille / 1000;
  const used = rows.filter(({ id }) => !found.unused.has(id));
  return { ...found, rate: least === 1 ? 1 : rateFor(agreementOf(used), least) };
}

type Found = Omit<Aggregate, 'rate'>;

function means(
  rows: readonly Row[],
  rule: RuleName,
  options: MeanOptions,
  meanOf: MeanRule,
): Found {
  const counted = rule === 'mean' ? rows.map((row) => ({ ...row, scale: 1 })) : rows;
  return { ...meanOf(counted, options), unused: new Set() };
}

/** Rows count alike in all of them, whatever their examples. Rows without any chunk are of nobody who takes part. */
function robust(rows: readonly Row[], options: AggregateOptions, aggregation: Aggregation): Found {
  const there = inOrder(rows).filter(({ delta }) => delta.chunks.length > 0);
  const { rule, hostile, before } = aggregation;
  if (there.length < leastRows(aggregation)) return nothing(rows, options);
  const distances = ruleForms[rule] === 'rows' || before === 'nnm' ? distancesOf(there) : undefined;
  const mixes =
    before === 'nnm'
      ? nearestNeighbors(distances!, hostile)
      : before === 'bucketing'
        ? bucketsOf(there, options.seed ?? '')
        : undefined;
  const byValue = valueRules[rule];
  if (byValue) return ofValues(there, mixes, options, aggregation, byValue);
  const between = mixes ? mixedDistances(distances!, mixes) : distances!;
  const weights = rowRules[rule]!(between, hostile);
  return ofRows(there, mixes ? unmixed(weights, mixes) : weights, options);
}

const nothing = (rows: readonly Row[], { size }: MeanOptions): Found => ({
  mean: new Float64Array(size),
  moved: new Uint32Array(),
  unused: new Set(rows.map(({ id }) => id)),
});

/** What means of rows weigh, as weights of the rows. */
function unmixed(weights: Float64Array, mixes: Mixes): Float64Array {
  const out = new Float64Array(mixes[0]!.length);
  mixes.forEach((mix, k) => {
    for (let i = 0; i < out.length; i++) out[i]! += weights[k]! * mix[i]!;
  });
  return out;
}

function ofRows(rows: readonly Row[], weights: Float64Array, { size }: MeanOptions): Found {
  const used = rows
    .map((row, i) => ({ ...row, weight: weights[i]! }))
    .filter(({ weight }) => weight > 0);
  const kept = new Set(used.map(({ id }) => id));
  const unused = new Set(rows.map(({ id }) => id).filter((id) => !kept.has(id)));
  return { ...weightedMean(used, { size, normalize: 'workers' }), unused };
}

function ofValues(
  rows: readonly Row[],
  mixes: Mixes | undefined,
  { size }: MeanOptions,
  aggregation: Aggregation,
  choose: ValueRule,
): Found {
  const { hostile } = aggregation;
  const mean = new Float64Array(size);
  const moved: number[] = [];
  const mixed = mixes && new Float64Array(mixes.length * ROOM_STRIDE);
  eachChunk(rows, (room) => {
    // a chunk of too few has no honest majority
    if (room.senders.length < leastRows(aggregation)) return;
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
  return { mean, moved: Uint32Array.from(moved), unused: new Set() };
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
