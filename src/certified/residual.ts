/** What becomes of a worker's learning once it is known what of it was counted: nothing that was not counted is lost. */
import { CHUNK_LENGTH } from '../tensor/partial-vector.ts';

export interface Fate {
  /** Chunks this worker sent. */
  readonly sent: Iterable<number>;
  /** Whether its contribution was listed, or refused for a good reason. */
  readonly isSettled: boolean;
  /** Chunks that some listed contribution moved. */
  readonly moved: Iterable<number>;
}

/**
 * The residual after a round: `after` (what was left when the payload had been packed) where the payload counted or another
 * worker's took its place, and `before` (all that was learned) in chunks of which nothing came.
 */
export function residualAfter(
  before: Float64Array,
  after: Float64Array,
  { sent, isSettled, moved }: Fate,
): Float64Array {
  const own = new Set(sent);
  const others = new Set(moved);
  const residual = Float64Array.from(before);
  const chunks = Math.ceil(residual.length / CHUNK_LENGTH);
  for (let chunk = 0; chunk < chunks; chunk++) {
    const isGone = own.has(chunk) ? isSettled : others.has(chunk);
    if (!isGone) continue;
    const from = chunk * CHUNK_LENGTH;
    residual.set(after.subarray(from, from + CHUNK_LENGTH), from);
  }
  return residual;
}
