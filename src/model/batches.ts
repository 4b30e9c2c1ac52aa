/**
 * Draws the rows of batches (counter-based: any step can be recomputed from the key), and divides batches into
 * microbatches.
 */
import { below, type Key, philox } from '../base/rng.ts';
import type { AnyModel } from './architectures/table.ts';
import { workPerRow } from './forms/table.ts';
import { countParameters } from './parameters.ts';

/** Minimum tokens of a microbatch; in smaller ones the fixed cost dominates. */
const LEAST_TOKENS = 1024;
const MOST_PARTS = 8;

export interface BatchDraw {
  /** Key of this worker's random stream: `deriveKey(..., seed, worker)`. */
  readonly key: Key;
  readonly round: number;
  /** Index of the first step within the round, from 0. */
  readonly firstStep: number;
  readonly steps: number;
  /** Rows per step. */
  readonly batch: number;
  /** Number of rows to draw from. */
  readonly bound: number;
}

/** Draws the row numbers of consecutive steps, uniformly and with replacement. */
export function drawRows({ key, round, firstStep, steps, batch, bound }: BatchDraw): Int32Array {
  const rows = new Int32Array(steps * batch);
  for (let step = 0; step < steps; step++) {
    for (let at = 0; at < batch; at += 4) {
      const words = philox(key, round, firstStep + step, at / 4, 0);
      for (let i = 0; i < 4 && at + i < batch; i++) {
        rows[step * batch + at + i] = below(words[i]!, bound);
      }
    }
  }
  return rows;
}

/** Returns `count` evenly spaced ones of the rows 0, stride, 2 stride, ... below `bound`; all if there are fewer. */
export function evenRows(bound: number, stride: number, count: number): Int32Array {
  const available = Math.floor((bound + stride - 1) / stride);
  const taken = Math.min(available, count);
  return Int32Array.from({ length: taken }, (_, i) => Math.floor((i * available) / taken) * stride);
}

/** Maximum values of a gradient, or of frozen tensors, that are worth copying for each thread. */
const MOST_COPIED = 2 ** 24;

/** Reports whether a model is too large to train in parts. Only decoders and models with frozen tensors can be. */
function isLarge(model: AnyModel): boolean {
  const frozen = (model.architecture === 'own' && model.frozen) || [];
  if (frozen.length > 0) return sizeOf(frozen) > MOST_COPIED;
  const isPublished = model.architecture === 'llama' || model.architecture === 'gpt2';
  return isPublished && countParameters(model) > MOST_COPIED;
}

const sizeOf = (tensors: readonly { readonly shape: readonly number[] }[]): number =>
  tensors.reduce((sum, { shape }) => sum + shape.reduce((size, dim) => size * dim, 1), 0);

/**
 * Returns the number of microbatches per batch: the largest power of two, at most 8, whose parts have at least 1024
 * tokens. It depends on model and batch alone, so the bits do not depend on the number of threads.
 */
export function countParts(model: AnyModel, batch: number): number {
  const tokens = batch * workPerRow(model);
  if (isLarge(model)) return 1;
  let parts = 1;
  while (
    2 * parts <= MOST_PARTS &&
    batch % (2 * parts) === 0 &&
    tokens >= 2 * parts * LEAST_TOKENS
  ) {
    parts *= 2;
  }
  return parts;
}
