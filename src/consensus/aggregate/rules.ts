/**
 * The table of aggregation rules and how a round applies one: mix the bounded rows, then choose. Names the rows left
 * out, since they belong back to their authors; with too few rows nothing moves.
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

/** Weights of rows, from the distances between them. */
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
  /** What nobody knew when the rows were sent; bucketing draws by it. */
  readonly seed?: string;
  /** How a mean is taken where the rule is one. */
  readonly meanOf?: MeanRule;
}

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

/** Rows count alike in all of them, whatever their examples. Rows without any chunk are of nobody who takes part. */
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
    const found = chooseColumns(there, choose, {
      size: options.size,
      hostile,
      leastRows: least,
      mixes,
    });
    return { ...found, unused: new Set() };
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

/** What means of rows weigh, as weights of the rows. */
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
