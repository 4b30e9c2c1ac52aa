/**
 * A round in a run with tiers: each ring of the model is bounded, averaged and hashed by itself, over those workers that have it, so that
 * workers of different tiers end in the same bits wherever they hold the same values.
 */
import type { MeanRule, Row } from '../consensus/aggregate/mean.ts';
import { boundRows, rootMeanSquare } from '../consensus/aggregate/norm-bound.ts';
import { type Aggregate, aggregate } from '../consensus/aggregate/rules.ts';
import { createLayout, type Params } from '../tensor/params.ts';
import { CHUNK_LENGTH, type Stretch, stretchOfPartial } from '../tensor/partial-vector.ts';
import type { Plan } from './plan.ts';

/** The rings that this worker has, each as parameters of its own; all of them as one in a run without tiers. */
export function partsOf(params: Params, { tiers }: Pick<Plan, 'tiers'>): readonly Params[] {
  return tiers ? tiers.rings.map((ring) => partOf(params, ring)) : [params];
}

function partOf({ layout, values }: Params, { from, to }: Stretch): Params {
  const slots = layout.slots.filter(({ offset }) => from <= offset && offset < to);
  return { layout: createLayout(slots), values: values.subarray(from, to) };
}

/** What the rows of a round come to. */
export interface Bounded {
  readonly mean: Aggregate;
  /** How large they typically were, in each ring that is here; of all in a run without tiers. The next ones are bounded by it. */
  readonly typical: readonly number[];
}

/** What rows are bounded by. */
interface Bounds {
  readonly params: Params;
  /** Typical sizes of rows of the last rounds, ring by ring. */
  readonly histories: readonly (readonly number[])[];
}

type RulesOfRows = Pick<Plan, 'normBound' | 'normalize' | 'aggregation'>;

/** A row before it is bounded, with what it weighs in the bound of the others in a run with stakes. */
type Unbounded = Omit<Row, 'scale'> & { readonly stake?: number };

interface Means {
  readonly meanOf?: MeanRule;
  /** Of lots. */
  readonly seed?: string;
}

/** The mean of the rows, each within its bound. */
export function boundedMean(
  rows: readonly Unbounded[],
  { params, histories }: Bounds,
  plan: Pick<Plan, 'tiers'> & RulesOfRows,
  means: Means,
): Bounded {
  if (!plan.tiers) {
    const part = meanOfPart(rows, params, histories[0] ?? [], plan, means);
    return { mean: part.mean, typical: [part.typical] };
  }
  const { rings } = plan.tiers;
  const mean = new Float64Array(params.layout.size);
  const moved: number[] = [];
  const typical = rings.map((ring, i) => {
    const own = rows.map((row) => ({ ...row, delta: stretchOfPartial(row.delta, ring) }));
    const there = own.filter(({ delta }) => delta.chunks.length > 0);
    // a ring that nobody trained stays as it is
    if (there.length === 0) return 0;
    const part = meanOfPart(there, partOf(params, ring), histories[i] ?? [], plan, means);
    mean.set(part.mean.mean, ring.from);
    for (const chunk of part.mean.moved) moved.push(chunk + ring.from / CHUNK_LENGTH);
    return part.typical;
  });
  const whole = { mean, moved: Uint32Array.from(moved), unused: new Set<string>(), rate: 1 };
  return { mean: whole, typical };
}

function meanOfPart(
  rows: readonly Unbounded[],
  { layout, values }: Params,
  history: readonly number[],
  { normBound, normalize, aggregation }: RulesOfRows,
  { meanOf, seed }: Means,
): { readonly mean: Aggregate; readonly typical: number } {
  const { scales, typical } = boundRows(
    rows.map(({ delta }) => delta),
    {
      normBound,
      history,
      parameters: () => rootMeanSquare(values),
      weights: rows.map(({ stake = 1 }) => stake),
    },
  );
  const bounded = rows.map((row, i) => ({ ...row, scale: scales[i]! }));
  const mean = aggregate(bounded, {
    size: layout.size,
    normalize,
    aggregation,
    ...(meanOf && { meanOf }),
    ...(seed !== undefined && { seed }),
  });
  return { mean, typical };
}
