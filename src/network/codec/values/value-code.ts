/** How the values of one chunk become bytes: a level or two and a few bits per value. Variants are in the files beside this one. */

/** Bits of an f32 without its sign; order of magnitudes is order of these integers. */
export const MAGNITUDE = 0x7fff_ffff;

/** Values of one chunk as f32, the same memory as integers, and the bits of the largest magnitude in use. */
export interface ChunkValues {
  readonly floats: Float32Array;
  readonly bits: Int32Array;
  largest: number;
}

/** What is wrong with a chunk from a stranger. */
export type Flaw = 'bad-level' | 'bad-value' | 'bad-padding';

/** A code for n values, n at least 1. */
export interface ValueCode {
  /** Exactly how many bytes n values take. */
  bytes(n: number): number;
  /** Writes the first n values, all finite, over bytes that are zero. */
  write(values: ChunkValues, n: number, out: Uint8Array, at: number): void;
  /** The first way in which the bytes are not the one spelling of n values; undefined when they are. */
  flaw(bytes: Uint8Array, at: number, n: number): Flaw | undefined;
  /** target[from + i] += weight × value i, the term rounded once. The bytes have no flaw. */
  add(
    bytes: Uint8Array,
    at: number,
    n: number,
    weight: number,
    target: Float64Array,
    from: number,
  ): void;
}

/** Room for the values of one chunk. */
export function chunkValues(length: number): ChunkValues {
  const floats = new Float32Array(length);
  return { floats, bits: new Int32Array(floats.buffer), largest: 0 };
}

/** Σ|v| in f64, by index; of every `stride`-th value. */
export function sumOfMagnitudes({ floats }: ChunkValues, n: number, stride = 1): number {
  let sum = 0;
  for (let i = 0; i < n; i += stride) sum += Math.abs(floats[i]!);
  return sum;
}

/**
 * How many magnitudes are above a threshold, and their sum in f64, by index; of every `stride`-th value. The threshold is
 * rounded to f32 first.
 */
export function sumAbove(
  { floats, bits }: ChunkValues,
  n: number,
  threshold: number,
  stride = 1,
): { count: number; sum: number } {
  const least = singleBits(threshold);
  let sum = 0;
  let count = 0;
  for (let i = 0; i < n; i += stride) {
    // 1 or 0 without a branch: half of the values are above, and no processor guesses which
    const above = (least - (bits[i]! & MAGNITUDE)) >>> 31;
    count += above;
    sum += Math.abs(floats[i]!) * above;
  }
  return { count, sum };
}

const single = new Float32Array(1);
const word = new Int32Array(single.buffer);

/** Bits of a number as f32. */
export function singleBits(value: number): number {
  single[0] = value;
  return word[0]!;
}

/** The f32 of these bits. */
export function singleOf(bits: number): number {
  word[0] = bits;
  return single[0]!;
}

/** First steps look at every fifth value: a fifth of the time, and in a matrix every column. */
export const SAMPLE = 5;

const ROUNDER = 1.5 * 2 ** 52;
const double = new Float64Array([1]);
const words = new Int32Array(double.buffer);
/** Where the low word of a double sits on this machine. */
const LOW = words[0] === 0 ? 0 : 1;

/** The nearest integer, ties to even, of a number within ±2^31: adding 1.5 × 2^52 leaves it in the low word. */
export function nearest(value: number): number {
  double[0] = value + ROUNDER;
  return words[LOW]!;
}
