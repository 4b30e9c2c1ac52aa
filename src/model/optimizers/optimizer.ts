/** The interface of an inner optimizer: scalars per step (learning rates) computed outside the graph, and the update inside it. */
import type { OptimizerSpec } from '../../run/spec/model-spec.ts';
import type { Value } from '../graph/value.ts';
import { add, div, minimum, reshape, slice, sqrt } from '../graph/verbs.ts';
import type { Range } from '../ranges.ts';

/** Where a matrix between two hidden layers lies in the flat vectors, row after row. */
export interface HiddenMatrix extends Range {
  readonly rows: number;
  readonly columns: number;
  /** How many matrices of equal width its columns hold side by side. */
  readonly abreast: number;
}

/** Everything an update may look at. All vectors are flat, and all are the same range of the model's. */
export interface UpdateInput {
  readonly params: Value;
  readonly gradient: Value;
  /** In the order of `Optimizer.moments`. */
  readonly moments: readonly Value[];
  /** This step's numbers, scalars in the order `Optimizer.rates` gives them. */
  readonly rates: readonly Value[];
  /** What clipping multiplies the gradient with; undefined when nothing is clipped. */
  readonly factor: Value | undefined;
  /** Where in the model's vectors the range begins. */
  readonly from: number;
}

export interface Optimizer {
  /** Names of the vectors carried from step to step and round to round; all start at zero. */
  readonly moments: readonly string[];
  /** Largest norm of the gradient over all parameters; 0 does not clip. */
  readonly clipNorm: number;
  /** Ranges that one update must see whole (matrices), in order; empty where any split is fine. */
  readonly whole: readonly Range[];
  /** How many numbers `rates` gives. */
  readonly rateCount: number;
  /** Numbers for the global step `step`, when the moments have already seen `seen` steps, both from 0. */
  rates(step: number, seen: number): readonly number[];
  update(input: UpdateInput): { readonly params: Value; readonly moments: readonly Value[] };
}

export type OptimizerRule<S extends OptimizerSpec> = (
  spec: S,
  matrices: readonly HiddenMatrix[],
) => Optimizer;

/** Scalars of a vector of rates. */
export const scalars = (rates: Value): readonly Value[] =>
  Array.from({ length: rates.shape[0]! }, (_, i) => reshape(slice(rates, 0, i, i + 1), []));

/** Keeps a zero gradient from dividing by zero, as PyTorch's clip_grad_norm_ does. */
const NORM_EPSILON = 1e-6;

/** Factor that clips a gradient with this sum of squares to the norm `clipNorm`. */
export const clipFactor = (squares: Value, clipNorm: number): Value =>
  minimum(div(clipNorm, add(sqrt(squares), NORM_EPSILON)), 1);

/** The same outside a graph. */
export const clipFactorOf = (squares: number, clipNorm: number): number =>
  Math.min(clipNorm / (Math.sqrt(squares) + NORM_EPSILON), 1);
