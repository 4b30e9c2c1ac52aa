/**
 * The residual: the part of a delta that the payload did not carry. Error feedback (arXiv 2508.15706) adds it to the
 * next delta.
 */
import type { ResidualRule } from '../run/settings.ts';
import type { Vector } from '../tensor/params.ts';
import { addPartial, CHUNK_LENGTH, type PartialVector } from '../tensor/partial-vector.ts';

/** Returns shared - after in f64, plus the residual under error feedback. */
export function deltaOf(
  shared: Vector,
  after: Vector,
  residual: Float64Array,
  rule: ResidualRule,
): Float64Array {
  const delta = new Float64Array(shared.length);
  for (let i = 0; i < delta.length; i++) delta[i] = shared[i]! - after[i]!;
  if (rule === 'feedback') for (let i = 0; i < delta.length; i++) delta[i]! += residual[i]!;
  return delta;
}

export interface ResidualSplit {
  readonly residual: Float64Array;
  /** Energy of the difference to what was sent, divided by the energy of the sent chunks. */
  readonly share: number;
}

/** Subtracts what was sent from a delta, in place, and returns the residual. */
export function takeSent(
  delta: Float64Array,
  sent: PartialVector,
  rule: ResidualRule,
): ResidualSplit {
  const before = energy(delta, sent.chunks);
  addPartial(delta, sent, -1);
  const share = before === 0 ? 0 : energy(delta, sent.chunks) / before;
  if (rule === 'none') delta.fill(0);
  return { residual: delta, share };
}

/** Adds a contribution that did not count back to the residual. Under `none` it is lost. */
export function restoreSent(
  residual: Float64Array,
  sent: PartialVector,
  rule: ResidualRule,
): Float64Array {
  return rule === 'none' ? residual : withSent(residual, sent, 1);
}

/** Removes a restored contribution from the residual again, because it counts after all. */
export function withdrawSent(
  residual: Float64Array,
  sent: PartialVector,
  rule: ResidualRule,
): Float64Array {
  return rule === 'none' ? residual : withSent(residual, sent, -1);
}

function withSent(residual: Float64Array, sent: PartialVector, weight: 1 | -1): Float64Array {
  const sum = residual.slice();
  addPartial(sum, sent, weight);
  return sum;
}

export interface Fate {
  readonly sent: Iterable<number>;
  /** Chunks with too few contributions for the aggregation rule, which did not move. */
  readonly still: ReadonlySet<number>;
  /** Mean of the step, if the aggregation rule left this contribution out of it. */
  readonly instead: Float64Array | undefined;
  /** Whether its contribution was listed, or rejected for a valid reason. */
  readonly isSettled: boolean;
  readonly moved: Iterable<number>;
}

/** Returns the residual after a round: `after` in chunks that counted or were replaced, `before` in the others. */
export function residualAfter(
  before: Float64Array,
  after: Float64Array,
  { sent, isSettled, moved, still, instead }: Fate,
): Float64Array {
  const sentChunks = new Set(sent);
  const others = new Set(moved);
  const residual = Float64Array.from(before);
  const chunks = Math.ceil(residual.length / CHUNK_LENGTH);
  for (let chunk = 0; chunk < chunks; chunk++) {
    const isGone = sentChunks.has(chunk) ? isSettled : others.has(chunk);
    if (!isGone || still.has(chunk)) continue;
    const from = chunk * CHUNK_LENGTH;
    const end = Math.min(residual.length, from + CHUNK_LENGTH);
    if (sentChunks.has(chunk) && instead) {
      for (let i = from; i < end; i++) residual[i]! -= instead[i]!;
    } else residual.set(after.subarray(from, end), from);
  }
  return residual;
}

function energy(vector: Float64Array, chunks: Uint32Array): number {
  let sum = 0;
  for (const chunk of chunks) {
    const end = Math.min(vector.length, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) sum += vector[i]! * vector[i]!;
  }
  return sum;
}
