/**
 * Deltas that cover only some chunks of the parameter vector, as decoded from payloads, and sparse vectors. An absent
 * chunk differs from a chunk of zeros: it was not sent.
 */

/** Values in a chunk of the parameter vector; the last chunk may be shorter. */
export const CHUNK_LENGTH = 4096;

/** Values of some chunks of a flat parameter vector. */
export interface PartialVector {
  /** Length of the whole vector. */
  readonly size: number;
  /** Indices of the chunks it covers, strictly ascending. */
  readonly chunks: Uint32Array;
  /** Adds weight × value to `target` from `at` on, for every value of a chunk. Each term is rounded once. */
  addChunk(position: number, weight: number, target: Float64Array, at: number): void;
  /** Adds the weight from `at` on, for every value of the chunk that was sent. Values that were not sent are zero. */
  weighChunk(position: number, weight: number, target: Float64Array, at: number): void;
}

/** The values `from` to `to - 1` of a vector. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** Returns the part of a delta in the first `until` values (whole chunks), as a delta of `size` values. */
export function prefixOfPartial(partial: PartialVector, size: number, until = size): PartialVector {
  const most = chunkCount(Math.min(until, size));
  const kept = partial.chunks.findIndex((chunk) => chunk >= most);
  const chunks = kept < 0 ? partial.chunks : partial.chunks.subarray(0, kept);
  return { ...partial, size, chunks };
}

/** Returns the part of a delta in a range of whole chunks, as a delta of that range alone. */
export function rangeOfPartial(partial: PartialVector, { from, to }: Range): PartialVector {
  const first = from / CHUNK_LENGTH;
  const positions = Array.from(partial.chunks.keys()).filter((position) => {
    const at = partial.chunks[position]! * CHUNK_LENGTH;
    return from <= at && at < to;
  });
  const start = positions[0] ?? 0;
  return {
    size: to - from,
    chunks: Uint32Array.from(positions, (position) => partial.chunks[position]! - first),
    addChunk: (position, ...rest) => partial.addChunk(start + position, ...rest),
    weighChunk: (position, ...rest) => partial.weighChunk(start + position, ...rest),
  };
}

/** Returns the number of chunks in a vector of this size. */
export const chunkCount = (size: number): number => Math.ceil(size / CHUNK_LENGTH);

/** Returns the number of values in one chunk of a vector of this size. */
export const chunkLength = (size: number, chunk: number): number =>
  Math.min(CHUNK_LENGTH, size - chunk * CHUNK_LENGTH);

/** Returns a `weighChunk` for chunks of which every value was sent. */
export const weighAll =
  (chunks: Uint32Array, size: number): PartialVector['weighChunk'] =>
  (position, weight, target, at) => {
    const end = at + chunkLength(size, chunks[position]!);
    for (let i = at; i < end; i++) target[i] = target[i]! + weight;
  };

/** Adds weight × partial to `target`, in f64 and by ascending index. Throws a RangeError if the sizes differ. */
export function addPartial(target: Float64Array, partial: PartialVector, weight: number): void {
  if (target.length !== partial.size) {
    throw new RangeError(`${partial.size} values do not fit a vector of ${target.length}`);
  }
  const { chunks } = partial;
  for (let i = 0; i < chunks.length; i++) {
    partial.addChunk(i, weight, target, chunks[i]! * CHUNK_LENGTH);
  }
}

/** Adds the weight to `target` for every value that was sent. */
export function weighPartial(target: Float64Array, partial: PartialVector, weight: number): void {
  const { chunks } = partial;
  for (let i = 0; i < chunks.length; i++) {
    partial.weighChunk(i, weight, target, chunks[i]! * CHUNK_LENGTH);
  }
}

export interface SparseVector {
  /** Length of the whole vector. */
  readonly size: number;
  /** Strictly ascending, each below `size`. */
  readonly indices: Uint32Array;
  /** One value per index. */
  readonly values: Float64Array;
}

/** Returns a sparse vector as a partial vector that covers every chunk. */
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
