/** The loss of a batch for training and evaluation: a mean over its rows or, where some tokens do not count, over those that do. */
import { ConfigError } from '../base/errors.ts';
import type { Batch, Model, Weights } from './architectures/architecture.ts';
import { isFloat, sameShape, type Value } from './graph/value.ts';
import { div, maximum, mul, reduceMean, reduceSum } from './graph/verbs.ts';

/**
 * The loss of a micro-batch. Without counted tokens it is the mean over its rows; with them its part of the mean over the `total`
 * tokens that count in the whole batch, which is 0 where none does.
 */
export function batchLoss(model: Model, weights: Weights, batch: Batch, total?: Value): Value {
  const losses = lossesOf(model, weights, batch);
  if (!batch.counted || !total) return reduceMean(losses);
  return reduceSum(mul(countedOnly(losses, batch.counted), div(1, maximum(total, 1))));
}

/** Per row its mean loss and how many of its tokens count; a row with none has the loss 0. */
export function rowLosses(
  model: Model,
  weights: Weights,
  batch: Batch,
): { readonly losses: Value; readonly counts?: Value } {
  const losses = lossesOf(model, weights, batch);
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
    `Your model's losses have the shape [${losses.shape}]; data in which only some tokens count needs one loss per token, [${counted.shape}].`,
    { hint: 'leave the mean over the tokens of a row out' },
  );
}

/** The losses of a batch, row by row. Throws a `ConfigError` (`model/losses`) where they are anything else. */
function lossesOf(model: Model, weights: Weights, batch: Batch): Value {
  const losses = model.losses(weights, batch);
  const [rows] = batch.targets.shape;
  if (losses.shape[0] === rows && isFloat(losses.dtype)) return losses;
  throw new ConfigError(
    'model/losses',
    `Your model's losses are ${losses.dtype} of the shape [${losses.shape}]; a batch of ${rows} rows needs ${rows} numbers, one per row.`,
    { hint: 'leave the mean over the rows out: reduce over all axes but the first' },
  );
}
