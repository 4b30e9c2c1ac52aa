/** The interface of inner optimizers (updates in the graph, rates per step outside it), the schedule, SGD and AdamW. */
import type { AdamWSpec, OptimizerSpec, Schedule, SgdSpec } from '../../run/spec/model-spec.ts';
import type { Range } from '../../tensor/partial-vector.ts';
import type { Value } from '../graph/rule.ts';
import { add, div, minimum, mul, reshape, slice, sqrt, square, sub } from '../graph/verbs.ts';

/** Position of a matrix between two hidden layers in the flat vectors, in row-major order. */
export interface HiddenMatrix extends Range {
  readonly rows: number;
  readonly columns: number;
  /** Number of matrices of equal width side by side in its columns. */
  readonly abreast: number;
}

/** Inputs of an update. All vectors are flat and cover the same range of the model's. */
export interface UpdateInput {
  readonly params: Value;
  readonly gradient: Value;
  /** In the order of `Optimizer.moments`. */
  readonly moments: readonly Value[];
  /** Rates of this step, scalars in the order of `Optimizer.rates`. */
  readonly rates: readonly Value[];
  /** Factor of the gradient from clipping; undefined without clipping. */
  readonly factor: Value | undefined;
  /** Start of the range in the model's vectors. */
  readonly from: number;
}

export interface Optimizer {
  /** Names of the vectors carried from step to step and from round to round; all start at zero. */
  readonly moments: readonly string[];
  /** Maximum norm of the gradient over all parameters; 0 disables clipping. */
  readonly clipNorm: number;
  /** Ranges (matrices) that must not be split between updates, in order; empty if any split is fine. */
  readonly whole: readonly Range[];
  /** Length of the result of `rates`. */
  readonly rateCount: number;
  /** Returns the rates of global step `step`, if the moments have seen `seen` steps; both from 0. */
  rates(step: number, seen: number): readonly number[];
  update(input: UpdateInput): { readonly params: Value; readonly moments: readonly Value[] };
}

export type OptimizerRule<S extends OptimizerSpec> = (
  spec: S,
  matrices: readonly HiddenMatrix[],
) => Optimizer;

/** Splits a vector of rates into scalars. */
export const scalars = (rates: Value): readonly Value[] =>
  Array.from({ length: rates.shape[0]! }, (_, i) => reshape(slice(rates, 0, i, i + 1), []));

/** Keeps a zero gradient from dividing by zero, as PyTorch's clip_grad_norm_ does. */
const NORM_EPSILON = 1e-6;

/** Returns the factor that clips a gradient with this sum of squares to the norm `clipNorm`. */
export const clipFactor = (squares: Value, clipNorm: number): Value =>
  minimum(div(clipNorm, add(sqrt(squares), NORM_EPSILON)), 1);

/** Like `clipFactor`, outside a graph. */
export const clipFactorOf = (squares: number, clipNorm: number): number =>
  Math.min(clipNorm / (Math.sqrt(squares) + NORM_EPSILON), 1);

/**
 * Returns the learning rate: linear warm-up to `learningRate`, then a cosine to `finalShare` of it at the last step.
 */
export function learningRateAt(schedule: Schedule, step: number): number {
  const { learningRate, warmupSteps, totalSteps, finalShare } = schedule;
  if (step < warmupSteps) return (learningRate * (step + 1)) / warmupSteps;
  if (totalSteps === 0) return learningRate;
  const done = Math.min(1, (step - warmupSteps) / Math.max(1, totalSteps - warmupSteps));
  return learningRate * (finalShare + ((1 - finalShare) * (1 + Math.cos(Math.PI * done))) / 2);
}

/** Stochastic gradient descent, without momentum or other state. */
export const sgd: OptimizerRule<SgdSpec> = ({ schedule, clipNorm }) => ({
  moments: [],
  clipNorm,
  whole: [],
  rateCount: 1,
  rates: (step) => [learningRateAt(schedule, step)],
  update: ({ params, gradient, rates: [rate], factor }) => ({
    params: sub(params, mul(gradient, factor ? mul(rate!, factor) : rate!)),
    moments: [],
  }),
});

/**
 * AdamW (Loshchilov and Hutter, arXiv 1711.05101): weight decay is applied to every parameter, independently of the
 * gradient.
 *
 *   m = b1 m + (1 - b1) g;  s = b2 s + (1 - b2) g^2
 *   p = p (1 - rate * decay) - rate * (m / (1 - b1^t)) / (sqrt(s / (1 - b2^t)) + epsilon)
 *
 * The bias corrections are folded into the step's rate and epsilon, so that no pass over the vectors is spent on them.
 */
export const adamw: OptimizerRule<AdamWSpec> = (spec) => {
  const { schedule, clipNorm, beta1, beta2, epsilon, weightDecay } = spec;
  return {
    moments: ['first', 'second'],
    clipNorm,
    whole: [],
    rateCount: 3,
    rates: (step, seen) => {
      const rate = learningRateAt(schedule, step);
      const correction = Math.sqrt(1 - power(beta2, seen + 1));
      return [
        (rate * correction) / (1 - power(beta1, seen + 1)),
        epsilon * correction,
        1 - rate * weightDecay,
      ];
    },
    update: ({ params, gradient, moments: [first, second], rates, factor }) => {
      const [rate, floor, keep] = rates;
      const share1 = factor ? mul(factor, 1 - beta1) : 1 - beta1;
      const share2 = factor ? mul(square(factor), 1 - beta2) : 1 - beta2;
      const m = add(mul(first!, beta1), mul(gradient, share1));
      const s = add(mul(second!, beta2), mul(square(gradient), share2));
      const move = div(mul(m, rate!), add(sqrt(s), floor!));
      return { params: sub(mul(params, keep!), move), moments: [m, s] };
    },
  };
};

/** Returns an integer power by repeated squaring: the same bits on every engine, unlike `**`. */
function power(base: number, exponent: number): number {
  let result = 1;
  for (let left = exponent, square = base; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result *= square;
    square *= square;
  }
  return result;
}

/**
 * Divides a flat vector of `size` elements into at most `count` ranges, for several threads. A border inside a range of
 * `whole` moves to its nearer end. The result depends on sizes alone, so the bits are the same for any number of
 * threads.
 */
export function cutRanges(size: number, count: number, whole: readonly Range[]): readonly Range[] {
  const borders = Array.from({ length: count + 1 }, (_, i) => {
    const at = Math.floor((size * i) / count);
    const inside = whole.find(({ from, to }) => from < at && at < to);
    if (!inside) return at;
    return at - inside.from < inside.to - at ? inside.from : inside.to;
  });
  const apart = [...new Set(borders)];
  return apart.slice(1).map((to, i) => ({ from: apart[i]!, to }));
}
