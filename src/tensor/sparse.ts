/** Sparse vectors: values by ascending index, zero elsewhere. */
import { CHUNK_LENGTH, chunkCount, type PartialVector } from './partial-vector.ts';

export interface SparseVector {
  /** Length of the whole vector. */
  readonly size: number;
  /** Strictly ascending, each below `size`. */
  readonly indices: Uint32Array;
  /** One value per index. */
  readonly values: Float64Array;
}

/** The same values as a partial vector that covers every chunk. */
export function partialOf({ size, indices, values }: SparseVector): PartialVector {
  const chunks = Uint32Array.from({ length: chunkCount(size) }, (_, chunk) => chunk);
  const firsts = new Uint32Array(chunks.length + 1);
  for (const index of indices) firsts[Math.floor(index / CHUNK_LENGTH) + 1]! += 1;
  for (let i = 1; i < firsts.length; i++) firsts[i] = firsts[i]! + firsts[i - 1]!;
  return {
    size,
    chunks,
    addChunk(position, weight, target, at) {
      const shift = at - position * CHUNK_LENGTH;
      for (let i = firsts[position]!; i < firsts[position + 1]!; i++) {
        const to = indices[i]! + shift;
        target[to] = target[to]! + values[i]! * weight;
      }
    },
    weighChunk(position, weight, target, at) {
      const shift = at - position * CHUNK_LENGTH;
      for (let i = firsts[position]!; i < firsts[position + 1]!; i++) {
        const to = indices[i]! + shift;
        target[to] = target[to]! + weight;
      }
    },
  };
}
