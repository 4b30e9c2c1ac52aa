/**
 * A round in a run with tiers: each ring of the model is bounded, averaged and hashed by itself, over those workers that have it, so that
 * workers of different tiers end in the same bits wherever they hold the same values.
 */
import type { MeanRule, Row } from '../consensus/aggregate/mean.ts';
import { boundRows, nextSizes, rootMeanSquare } from '../consensus/aggregate/norm-bound.ts';
import { type Aggregate, aggregate } from '../consensus/aggregate/rules.ts';
import { createLayout, type Params } from '../tensor/params.ts';
import { CHUNK_LENGTH, type Stretch, stretchOfPartial } from '../tensor/partial-vector.ts';
import type { Plan } from './plan.ts';
import type { WorkerState } from './state.ts';

/** The rings that this worker has, each as parameters of its own; all of them as one in a run without tiers. */
export function partsOf(params: Params, { tiers }: Pick<Plan, 'tiers'>): readonly Params[] {
  return tiers ? tiers.rings.map((ring) => partOf(params, ring)) : [params];
}

function partOf({ layout, values }: Params, { from, to }: Stretch): Params {
  const slots = layout.slots.filter(({ offset }) => from <= offset && offset < to);
  return { layout: createLayout(slots), values: values.subarray(from, to) };
}

/** What the rows of a round come to, and the typical sizes that the next ones are bounded by. */
export interface Bounded extends Pick<WorkerState, 'norms' | 'outerNorms'> {
  readonly mean: Aggregate;
}

type RulesOfRows = 'normBound' | 'normalize' | 'aggregation';

type Unbounded = readonly Omit<Row, 'scale'>[];

/** The mean of the rows, each within its bound. */
export function boundedMean(
  rows: Unbounded,
  { params, norms, outerNorms = [] }: Pick<WorkerState, 'params' | 'norms' | 'outerNorms'>,
  plan: Pick<Plan, 'tiers' | RulesOfRows>,
  meanOf: MeanRule,
  /** Of lots. */
  seed = '',
): Bounded {
  if (!plan.tiers) return meanOfPart(rows, params, norms, plan, meanOf, seed);
  const { rings } = plan.tiers;
  const histories = [norms, ...outerNorms];
  const mean = new Float64Array(params.layout.size);
  const moved: number[] = [];
  const sizes = rings.map((ring, i) => {
    const own = rows.map((row) => ({ ...row, delta: stretchOfPartial(row.delta, ring) }));
    const there = own.filter(({ delta }) => delta.chunks.length > 0);
    const history = histories[i] ?? [];
    // a ring that nobody trained stays as it is
    if (there.length === 0) return history;
    const part = meanOfPart(there, partOf(params, ring), history, plan, meanOf, seed);
    mean.set(part.mean.mean, ring.from);
    for (const chunk of part.mean.moved) moved.push(chunk + ring.from / CHUNK_LENGTH);
    return part.norms;
  });
  const [first = [], ...outer] = sizes;
  const whole = { mean, moved: Uint32Array.from(moved), unused: new Set<string>(), rate: 1 };
  return { mean: whole, norms: first, outerNorms: outer };
}

function meanOfPart(
  rows: Unbounded,
  { layout, values }: Params,
  history: readonly number[],
  { normBound, normalize, aggregation }: Pick<Plan, RulesOfRows>,
  meanOf: MeanRule,
  seed: string,
): Bounded {
  const { scales, typical } = boundRows(
    rows.map(({ delta }) => delta),
    { normBound, history, parameters: () => rootMeanSquare(values) },
  );
  const bounded = rows.map((row, i) => ({ ...row, scale: scales[i]! }));
  const options = { size: layout.size, normalize, aggregation, meanOf, seed };
  const mean = aggregate(bounded, options);
  return { mean, norms: nextSizes(history, typical) };
}
