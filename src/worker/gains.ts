/**
 * What single contributions do to the loss on data rows, and which of them repeat others: for members that screen and
 * score in certified runs, and for validators that merge.
 */
import { deriveKey, type Key } from '../base/rng.ts';
import { scoreOfGain } from '../consensus/scores.ts';
import type { Contribution } from '../run/contribution.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Vector } from '../tensor/params.ts';
import { CHUNK_LENGTH, type PartialVector } from '../tensor/partial-vector.ts';

/** Effect of one contribution on the loss, as one member measured it. */
export interface MeasuredGain {
  /** Decrease of the loss; -Infinity if the loss becomes NaN or infinite. */
  readonly gain: number;
  /** Standard error of the gain over the measured rows. */
  readonly error: number;
}

export type Losses = (params: Vector) => Promise<Float32Array>;

/** Measures what a contribution does to the loss; `before` has the losses without it, one per data row. */
export async function gainOf(
  params: Vector,
  { delta }: Pick<Contribution, 'delta'>,
  before: Float32Array,
  losses: Losses,
): Promise<MeasuredGain> {
  const values = Float32Array.from(params);
  const chunk = new Float64Array(CHUNK_LENGTH);
  delta.chunks.forEach((index, position) => {
    const at = index * CHUNK_LENGTH;
    chunk.fill(0);
    delta.addChunk(position, -1, chunk, 0);
    const end = Math.min(CHUNK_LENGTH, values.length - at);
    for (let i = 0; i < end; i++) values[at + i]! += chunk[i]!;
  });
  const after = await losses(values);
  const gains = Array.from(before, (loss, i) => loss - after[i]!);
  const gain = gains.reduce((sum, each) => sum + each, 0) / gains.length;
  if (!Number.isFinite(gain)) return { gain: Number.NEGATIVE_INFINITY, error: 0 };
  const squares = gains.reduce((sum, each) => sum + (each - gain) ** 2, 0);
  return { gain, error: Math.sqrt(squares / Math.max(1, gains.length - 1) / gains.length) };
}

export type Arrived = Pick<Contribution, 'worker' | 'delta'>;

/** Returns a fingerprint of each non-empty chunk; equal values give equal fingerprints. */
function marksOf(delta: PartialVector): readonly string[] {
  const values = new Float64Array(CHUNK_LENGTH);
  const words = new Int32Array(values.buffer);
  return Array.from(delta.chunks).flatMap((chunk, position) => {
    values.fill(0);
    delta.addChunk(position, 1, values, 0);
    let [a, b] = [0x9e3779b9 | 0, chunk];
    let isEmpty = true;
    for (const word of words) {
      if (word !== 0) isEmpty = false;
      a = Math.imul(a ^ word, 0x85ebca6b);
      b = (Math.imul(b, 0xc2b2ae35) + (word ^ (a >>> 15))) | 0;
    }
    return isEmpty ? [] : [`${chunk}/${a}/${b}`];
  });
}

/**
 * Finds contributions of which at least half the chunks repeat chunks of this round or of the previous one. A copier
 * has to wait for the original, so most members receive the original first.
 */
export function duplicatesAmong(
  arrived: readonly Arrived[],
  before: ReadonlySet<string>,
): { readonly duplicates: ReadonlySet<WorkerId>; readonly marks: ReadonlySet<string> } {
  const marks = new Set<string>();
  const duplicates = new Set<WorkerId>();
  for (const { worker, delta } of arrived) {
    const chunkMarks = marksOf(delta);
    const repeated = chunkMarks.filter((mark) => marks.has(mark) || before.has(mark));
    if (repeated.length > 0 && 2 * repeated.length >= chunkMarks.length) duplicates.add(worker);
    for (const mark of chunkMarks) marks.add(mark);
  }
  return { duplicates, marks };
}

/** Data rows of a score. */
export const SCORE_ROWS = 32;
/** Maximum contributions scored in one round; the key of the rows draws them, so that all choose the same ones. */
export const MOST_SCORED = 64;

/** Yields the score of each contribution on the rows of a key, once it is measured; a duplicate scores at most 0. */
export async function* scoresOf(
  params: Vector,
  arrived: readonly Arrived[],
  duplicates: ReadonlySet<WorkerId>,
  key: Key,
  losses: Losses,
): AsyncGenerator<readonly [WorkerId, number], void> {
  const draw = ({ worker }: Arrived) => deriveKey('nostrain/scores/order', ...key, worker)[0];
  const chosen = [...arrived].sort((a, b) => draw(a) - draw(b)).slice(0, MOST_SCORED);
  const before = await losses(params);
  for (const contribution of chosen) {
    const { worker } = contribution;
    const score = scoreOfGain((await gainOf(params, contribution, before, losses)).gain);
    yield [worker, duplicates.has(worker) ? Math.min(0, score) : score];
  }
}
