/**
 * Squared distances between contributions (rows), computed in one pass over the values. The row rules (Krum, geometric
 * median, ...) read nothing else: they return weights, and distances between weighted means follow from these.
 */
import { CHUNK_LENGTH, chunkCount, chunkLength } from '../../tensor/partial-vector.ts';
import type { Row } from './mean.ts';

/** Values per row in a `ChunkBuffer`; more than a chunk, so that rows do not share a cache line. */
export const BUFFER_STRIDE = CHUNK_LENGTH + 16;

/** The values of a chunk, row after row; zero if a row did not send the chunk. */
export interface ChunkBuffer {
  readonly chunk: number;
  readonly values: Float64Array;
  /** Indices of the rows that sent the chunk, ascending. */
  readonly senders: readonly number[];
  readonly length: number;
}

/** Calls `take` with each chunk that any row sent, ascending. The buffer is reused between calls. */
export function eachChunk(rows: readonly Row[], take: (buffer: ChunkBuffer) => void): void {
  const size = rows[0]?.delta.size ?? 0;
  const positions = rows.map(({ delta }) => {
    if (delta.size !== size) throw new RangeError('rows of different sizes have no aggregate');
    const ofChunk = new Int32Array(chunkCount(size)).fill(-1);
    for (let at = 0; at < delta.chunks.length; at++) ofChunk[delta.chunks[at]!] = at;
    return ofChunk;
  });
  const values = new Float64Array(rows.length * BUFFER_STRIDE);
  for (let chunk = 0; chunk < chunkCount(size); chunk++) {
    const senders = rows.flatMap((_, i) => (positions[i]![chunk]! < 0 ? [] : [i]));
    if (senders.length === 0) continue;
    values.fill(0);
    for (const i of senders) {
      const { delta, scale } = rows[i]!;
      delta.addChunk(positions[i]![chunk]!, scale, values, i * BUFFER_STRIDE);
    }
    take({ chunk, values, senders, length: chunkLength(size, chunk) });
  }
}

/** Squared distances between `count` rows, as a `count` × `count` matrix in row-major order. */
export interface Distances {
  readonly count: number;
  readonly squared: Float64Array;
}

/** Returns the distances between the rows; a chunk that a row did not send counts as zero. */
export function distancesOf(rows: readonly Row[]): Distances {
  const count = rows.length;
  const squared = new Float64Array(count * count);
  eachChunk(rows, ({ values, length }) => {
    for (let i = 0; i < count; i++) {
      let j = i + 1;
      for (; j + 3 < count; j += 4) addFour(values, length, i, j, squared, count);
      for (; j < count; j++) {
        const sum = squareBetween(values, length, i * BUFFER_STRIDE, j * BUFFER_STRIDE);
        squared[i * count + j] = squared[i * count + j]! + sum;
      }
    }
  });
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < i; j++) squared[i * count + j] = squared[j * count + i]!;
  }
  return { count, squared };
}

function squareBetween(values: Float64Array, length: number, a: number, b: number): number {
  let sum = 0;
  for (let k = 0; k < length; k++) {
    const gap = values[a + k]! - values[b + k]!;
    sum += gap * gap;
  }
  return sum;
}

/** Adds the squared distances from row i to rows j .. j + 3, each as `squareBetween` gives it; four sums pipeline. */
function addFour(
  values: Float64Array,
  length: number,
  i: number,
  j: number,
  squared: Float64Array,
  count: number,
): void {
  const a = i * BUFFER_STRIDE;
  const b = j * BUFFER_STRIDE;
  let [s0, s1, s2, s3] = [0, 0, 0, 0];
  for (let k = 0; k < length; k++) {
    const value = values[a + k]!;
    const g0 = value - values[b + k]!;
    const g1 = value - values[b + BUFFER_STRIDE + k]!;
    const g2 = value - values[b + 2 * BUFFER_STRIDE + k]!;
    const g3 = value - values[b + 3 * BUFFER_STRIDE + k]!;
    s0 += g0 * g0;
    s1 += g1 * g1;
    s2 += g2 * g2;
    s3 += g3 * g3;
  }
  const to = i * count + j;
  squared[to]! += s0;
  squared[to + 1]! += s1;
  squared[to + 2]! += s2;
  squared[to + 3]! += s3;
}

/** Returns the squared distance of each row to the weighted mean of the rows; the weights sum to 1. */
export function squaresToMean({ count, squared }: Distances, weights: Float64Array): Float64Array {
  const out = new Float64Array(count);
  let dispersion = 0;
  for (let i = 0; i < count; i++) {
    let sum = 0;
    for (let j = 0; j < count; j++) sum += weights[j]! * squared[i * count + j]!;
    out[i] = sum;
    dispersion += weights[i]! * sum;
  }
  // rounding may leave a small negative number
  for (let i = 0; i < count; i++) out[i] = Math.max(0, out[i]! - dispersion / 2);
  return out;
}

/** Weighted means of rows; the weights of each mean sum to 1. */
export type Mixes = readonly Float64Array[];

/** Returns the distances between weighted means of rows, from the distances between the rows. */
export function mixedDistances({ count: n, squared }: Distances, mixes: Mixes): Distances {
  const count = mixes.length;
  const across = mixes.map((weights) => {
    const sums = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      if (weights[i] === 0) continue;
      for (let j = 0; j < n; j++) sums[j]! += weights[i]! * squared[i * n + j]!;
    }
    return sums;
  });
  const between = (k: number, l: number) => {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += mixes[l]![i]! * across[k]![i]!;
    return sum;
  };
  const within = mixes.map((_, k) => between(k, k));
  const out = new Float64Array(count * count);
  for (let k = 0; k < count; k++) {
    for (let l = k + 1; l < count; l++) {
      const square = Math.max(0, between(k, l) - within[k]! / 2 - within[l]! / 2);
      out[k * count + l] = square;
      out[l * count + k] = square;
    }
  }
  return { count, squared: out };
}

/** Returns the middle value, the lower of two; 0 if there are no values. */
export function lowerMedian(values: Float64Array): number {
  return values.slice().sort()[(values.length - 1) >> 1] ?? 0;
}

/** Returns the squared distances of row i to all others, ascending. */
export const othersOf = ({ count, squared }: Distances, i: number): Float64Array =>
  Float64Array.from(
    [...squared.subarray(i * count, (i + 1) * count)].filter((_, j) => j !== i),
  ).sort();
