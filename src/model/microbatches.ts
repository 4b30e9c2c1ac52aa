/**
 * How a batch is cut for several threads: each takes whole parts, so that it works alone on tensors small enough for its
 * cache. The cut follows from model and batch only, never from the number of threads, so that the bits do not either.
 */
import type { AnyModel } from './architectures/table.ts';
import { tokensPerRow } from './data-form.ts';

/** Smaller parts would spend too much of their time on what every part repeats. */
const LEAST_TOKENS = 1024;
const MOST_PARTS = 8;

/** The largest power of two that divides the batch into parts of at least 1024 tokens; at most 8. */
export function countParts(model: AnyModel, batch: number): number {
  const tokens = batch * tokensPerRow(model);
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
