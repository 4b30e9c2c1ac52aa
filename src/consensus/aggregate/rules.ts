/**
 * The table of aggregation rules, and how a round applies one: mix the norm-bounded contributions, then apply the rule.
 * Reports the contributions that were left out, so that their authors keep them in the residual. With too few
 * contributions the parameters stay unchanged.
 */
import {
  type Aggregation,
  leastRows,
  type RuleName,
  ruleForms,
  usualAggregation,
} from '../../run/aggregation.ts';
import { agreementOf, rateFor } from './agreement.ts';
import { type ColumnRule, chooseColumns, coordinateMedian, trimmedMean } from './column-rules.ts';
import { type Distances, distancesOf, type Mixes, mixedDistances } from './distances.ts';
import {
  inOrder,
  type Mean,
  type MeanOptions,
  type MeanRule,
  type Row,
  weightedMean,
} from './mean.ts';
import {
  bucketsOf,
  centeredClip,
  geometricMedian,
  krum,
  multiKrum,
  nearestNeighbors,
} from './row-rules.ts';

/** Returns the weight of each row, from the distances between rows. */
type RowRule = (distances: Distances, hostile: number) => Float64Array;

const columnRules: Partial<Readonly<Record<RuleName, ColumnRule>>> = {
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
  /** Seed of bucketing: a value that was unpredictable when the rows were sent. */
  readonly seed?: string;
  /** Computes the mean if the rule is a mean; default `weightedMean`. */
  readonly meanOf?: MeanRule;
}

/** The result of an aggregation rule. */
export interface Aggregate extends Mean {
  /** Event ids of the rows that have no weight in the result. */
  readonly unused: ReadonlySet<string>;
  /** Factor for the outer learning rate. */
  readonly rate: number;
}

/** Aggregates the rows of a round; their order does not matter. Throws a RangeError if a mean has no rows. */
export function aggregate(rows: readonly Row[], options: AggregateOptions): Aggregate {
  const { aggregation = usualAggregation, meanOf = weightedMean } = options;
  const { rule, leastRatePermille } = aggregation;
  const result =
    ruleForms[rule] === 'mean'
      ? means(rows, rule, options, meanOf)
      : robust(rows, options, aggregation);
  const least = leastRatePermille / 1000;
  const used = rows.filter(({ id }) => !result.unused.has(id));
  return { ...result, rate: least === 1 ? 1 : rateFor(agreementOf(used), least) };
}

type RuleResult = Omit<Aggregate, 'rate'>;

function means(
  rows: readonly Row[],
  rule: RuleName,
  options: MeanOptions,
  meanOf: MeanRule,
): RuleResult {
  const counted = rule === 'mean' ? rows.map((row) => ({ ...row, scale: 1 })) : rows;
  return { ...meanOf(counted, options), unused: new Set() };
}

/** Applies a robust rule: every row has equal weight, whatever its example count. Rows without a chunk are ignored. */
function robust(
  rows: readonly Row[],
  options: AggregateOptions,
  aggregation: Aggregation,
): RuleResult {
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
  const choose = columnRules[rule];
  if (choose) {
    const least = leastRows(aggregation);
    const result = chooseColumns(there, choose, {
      size: options.size,
      hostile,
      leastRows: least,
      mixes,
    });
    return { ...result, unused: new Set() };
  }
  const between = mixes ? mixedDistances(distances!, mixes) : distances!;
  const weights = rowRules[rule]!(between, hostile);
  return ofRows(there, mixes ? unmixed(weights, mixes) : weights, options);
}

const nothing = (rows: readonly Row[], { size }: MeanOptions): RuleResult => ({
  mean: new Float64Array(size),
  moved: new Uint32Array(),
  unused: new Set(rows.map(({ id }) => id)),
});

/** Converts weights of mixed rows into weights of the original rows. */
function unmixed(weights: Float64Array, mixes: Mixes): Float64Array {
  const out = new Float64Array(mixes[0]!.length);
  mixes.forEach((mix, k) => {
    for (let i = 0; i < out.length; i++) out[i]! += weights[k]! * mix[i]!;
  });
  return out;
}

function ofRows(rows: readonly Row[], weights: Float64Array, { size }: MeanOptions): RuleResult {
  const used = rows
    .map((row, i) => ({ ...row, weight: weights[i]! }))
    .filter(({ weight }) => weight > 0);
  const kept = new Set(used.map(({ id }) => id));
  const unused = new Set(rows.map(({ id }) => id).filter((id) => !kept.has(id)));
  return { ...weightedMean(used, { size, normalize: 'workers' }), unused };
}
