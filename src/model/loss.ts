/** The loss of a batch, and dynamic loss scaling for steps whose products are in f16. */
import { ConfigError } from '../base/errors.ts';
import type { Batch, Model, Weights } from './architectures/architecture.ts';
import type { Graph } from './graph/builder.ts';
import { next } from './graph/lower.ts';
import { isFloat, sameShape, type Value } from './graph/rule.ts';
import {
  add,
  constantLike,
  div,
  less,
  maximum,
  mul,
  reduceMean,
  reduceSum,
  reshape,
  slice,
  where,
} from './graph/verbs.ts';

/**
 * Returns the loss of a micro-batch: the mean over its rows. If only some tokens count, it is the micro-batch's share
 * of the mean over the `total` counted tokens of the whole batch.
 */
export function batchLoss(model: Model, weights: Weights, batch: Batch, total?: Value): Value {
  const losses = lossesOf(model, weights, batch, true);
  if (!batch.counted || !total) return reduceMean(losses);
  return reduceSum(mul(countedOnly(losses, batch.counted), div(1, maximum(total, 1))));
}

/** Returns the mean loss and the number of counted tokens of each row; a row without counted tokens has the loss 0. */
export function rowLosses(
  model: Model,
  weights: Weights,
  batch: Batch,
): { readonly losses: Value; readonly counts?: Value } {
  const losses = lossesOf(model, weights, batch, false);
  if (!batch.counted) {
    const axes = losses.shape.map((_, axis) => axis).slice(1);
    return { losses: reduceMean(losses, axes) };
  }
  const counts = reduceSum(batch.counted, [1]);
  const sums = reduceSum(countedOnly(losses, batch.counted), [1]);
  return { losses: div(sums, maximum(counts, 1)), counts };
}

function countedOnly(losses: Value, counted: Value): Value {
  if (sameShape(losses.shape, counted.shape)) return mul(losses, counted);
  throw new ConfigError(
    'model/losses',
    `Your model's losses have the shape [${losses.shape}]; data in which only some tokens count ` +
      `needs one loss per token, [${counted.shape}].`,
    { hint: 'return the losses without averaging over the tokens of a row' },
  );
}

/** Returns the loss of each row. Throws a ConfigError (`model/losses`) if the model's losses have another shape. */
function lossesOf(model: Model, weights: Weights, batch: Batch, isTraining: boolean): Value {
  const losses = model.losses(weights, batch, isTraining);
  const [rows] = batch.targets.shape;
  if (losses.shape[0] === rows && isFloat(losses.dtype)) return losses;
  throw new ConfigError(
    'model/losses',
    `Your model's losses are ${losses.dtype} of the shape [${losses.shape}]; a batch of ${rows} ` +
      `rows needs ${rows} numbers, one per row.`,
    { hint: 'reduce over all axes but the first, without averaging over rows' },
  );
}

const FIRST_SCALE = 65_536;
/** Steps in a row without overflow after which the scale is doubled. */
const PATIENCE = 2000;
/** Sums of squares from here on count as overflow (f32 ends at 3.4e38). */
const MOST = 3e38;
/** Smallest loss scale. A gradient that overflows even here is a real divergence. */
const LEAST_SCALE = 2 ** -14;

/** Name and initial value of the loss-scaling state. */
export const scalingState = {
  name: 'scaling',
  first: (): Float32Array => Float32Array.of(FIRST_SCALE, 0),
} as const;

/** Reports whether gradients overflow even at the smallest scale. */
export const hasGivenUp = ([scale]: Float32Array): boolean => scale! < LEAST_SCALE;

export interface LossScaling {
  /** Factor of the loss in this step. */
  readonly scale: Value;
  /** Returns whether a gradient with this sum of squares is finite. Adds the next state to the graph's outputs. */
  outputNext(squares: Value): Value;
}

/**
 * Dynamic loss scaling (Micikevicius et al., arXiv 1710.03740, section 3.2) for f16: the loss is multiplied by a scale
 * before backward, so that small gradients do not vanish. A step whose gradient is not finite is skipped and the scale
 * halved; after many finite steps it is doubled. bf16 has the range of f32 and does not need scaling.
 */
export function openScaling(graph: Graph): LossScaling {
  const { name } = scalingState;
  const scaling = graph.input(name, { dtype: 'f32', shape: [2] });
  const pair = (scale: number, count: number) => constantLike(scaling, [2], [scale, count]);
  return {
    scale: reshape(slice(scaling, 0, 0, 1), []),
    outputNext(squares) {
      // also false for NaN
      const counts = less(squares, MOST);
      const isPatient = less(slice(scaling, 0, 1, 2), PATIENCE - 1);
      const good = where(isPatient, add(scaling, pair(0, 1)), mul(scaling, pair(2, 0)));
      graph.output(next(name), where(counts, good, mul(scaling, pair(0.5, 0))));
      return counts;
    },
  };
}
