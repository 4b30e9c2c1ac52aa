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

/** Returns the part of a delta in the chunks that pass the test. */
export function chunksOfPartial(
  partial: PartialVector,
  keeps: (chunk: number) => boolean,
): PartialVector {
  const positions = [...partial.chunks.keys()].filter((at) => keeps(partial.chunks[at]!));
  return {
    size: partial.size,
    chunks: Uint32Array.from(positions, (at) => partial.chunks[at]!),
    addChunk: (position, ...rest) => partial.addChunk(positions[position]!, ...rest),
    weighChunk: (position, ...rest) => partial.weighChunk(positions[position]!, ...rest),
  };
}

/** Returns the numbers of the chunks in a range of whole chunks. */
export const chunksIn = ({ from, to }: Range): readonly number[] => {
  const first = from / CHUNK_LENGTH;
  return Array.from({ length: chunkCount(to) - first }, (_, i) => first + i);
};

/** Returns the part of a delta in the first `until` values (whole chunks), as a delta of `size` values. */
export function prefixOfPartial(partial: PartialVector, size: number, until = size): PartialVector {
  const most = chunkCount(Math.min(until, size));
  return { ...chunksOfPartial(partial, (chunk) => chunk < most), size };
}

/** Returns the part of a delta in a range of whole chunks, as a delta of that range alone. */
export function rangeOfPartial(partial: PartialVector, { from, to }: Range): PartialVector {
  const first = from / CHUNK_LENGTH;
  const part = chunksOfPartial(partial, (chunk) => first <= chunk && chunk * CHUNK_LENGTH < to);
  return { ...part, size: to - from, chunks: part.chunks.map((chunk) => chunk - first) };
}

/** Visits the values of each chunk of a delta in index order. The array is used again for the next chunk. */
export function visitChunks(
  partial: PartialVector,
  visit: (values: Float64Array, chunk: number) => void,
): void {
  const values = new Float64Array(CHUNK_LENGTH);
  for (let position = 0; position < partial.chunks.length; position++) {
    const chunk = partial.chunks[position]!;
    values.fill(0);
    partial.addChunk(position, 1, values, 0);
    visit(values.subarray(0, chunkLength(partial.size, chunk)), chunk);
  }
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
