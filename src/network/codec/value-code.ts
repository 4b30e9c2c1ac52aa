/**
 * The interface of value codes, which turn the values of one chunk into bytes (levels in bfloat16, then a few bits per
 * value), and the arithmetic they share.
 */
import { TrainingError } from '../../base/errors.ts';
import type { Vector } from '../../tensor/params.ts';

const levelWord = new Uint32Array(1);
const levelSingle = new Float32Array(levelWord.buffer);

/** Bits of the smallest normal level, 2^-126; a smaller one counts as 0. */
const LEAST = 0x0080;
const INFINITE = 0x7f80;

/**
 * Rounds a level >= 0 to bfloat16 (nearest, ties to even; 0 if subnormal) and returns its bits. Throws a TrainingError
 * if infinite.
 */
export function levelBits(level: number): number {
  levelSingle[0] = level;
  const bits = (levelWord[0]! + 0x7fff + ((levelWord[0]! >>> 16) & 1)) >>> 16;
  if (bits >= INFINITE) {
    throw new TrainingError('codec/range', `level ${level} of the delta is out of range`, {
      hint: 'training diverged; lower the learning rate or clip gradients',
    });
  }
  return bits < LEAST ? 0 : bits;
}

/** Returns the value of bfloat16 bits, exactly. */
export function levelOf(bits: number): number {
  levelWord[0] = bits << 16;
  return levelSingle[0]!;
}

/** Reports whether these bits are a level that `levelBits` can return: 0 or a positive normal number. */
export const isLevel = (bits: number): boolean => bits === 0 || (bits >= LEAST && bits < INFINITE);

export const readLevelBits = (bytes: Uint8Array, at: number): number =>
  bytes[at]! | (bytes[at + 1]! << 8);

export function writeLevelBits(bytes: Uint8Array, at: number, bits: number): void {
  bytes[at] = bits & 0xff;
  bytes[at + 1] = bits >>> 8;
}

/** Mask of an f32 without its sign; magnitudes compare as integers. */
export const MAGNITUDE = 0x7fff_ffff;

/** Values of one chunk as f32, their bits in the same memory, and sums of magnitudes (see `addUp`). */
export interface ChunkValues {
  readonly floats: Float32Array;
  readonly bits: Int32Array;
  sum: number;
  sampled: number;
}

export type Flaw = 'bad-level' | 'bad-value' | 'bad-padding';

/** A code for n >= 1 values. */
export interface ValueCode {
  /** Returns the exact number of bytes of n values. */
  bytes(n: number): number;
  /** Encodes the first n values, all finite, into zeroed bytes. */
  write(values: ChunkValues, n: number, out: Uint8Array, at: number): void;
  /** Returns the first way in which the bytes are not the canonical encoding of n values; undefined if they are. */
  flaw(bytes: Uint8Array, at: number, n: number): Flaw | undefined;
  /** Adds weight × value i, rounded once, to target[from + i]. The bytes must be canonical. */
  add(
    bytes: Uint8Array,
    at: number,
    n: number,
    weight: number,
    target: Float64Array,
    from: number,
  ): void;
}

export function chunkValues(length: number): ChunkValues {
  const floats = new Float32Array(length);
  return { floats, bits: new Int32Array(floats.buffer), sum: 0, sampled: 0 };
}

/** Sets the sums of the first n magnitudes: in f64, by ascending index. */
export function addUp(values: ChunkValues, n: number): void {
  const { floats } = values;
  let sum = 0;
  let sampled = 0;
  const whole = n - (n % SAMPLE);
  for (let i = 0; i < whole; i += SAMPLE) {
    const first = Math.abs(floats[i]!);
    sum += first;
    sampled += first;
    sum += Math.abs(floats[i + 1]!);
    sum += Math.abs(floats[i + 2]!);
    sum += Math.abs(floats[i + 3]!);
    sum += Math.abs(floats[i + 4]!);
  }
  if (whole < n) sampled += Math.abs(floats[whole]!);
  for (let i = whole; i < n; i++) sum += Math.abs(floats[i]!);
  values.sum = sum;
  values.sampled = sampled;
}

/** Returns the largest of the first n magnitudes. */
export function largestMagnitude({ bits }: ChunkValues, n: number): number {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    a = Math.max(a, bits[i]! & MAGNITUDE);
    b = Math.max(b, bits[i + 1]! & MAGNITUDE);
    c = Math.max(c, bits[i + 2]! & MAGNITUDE);
    d = Math.max(d, bits[i + 3]! & MAGNITUDE);
  }
  for (let i = whole; i < n; i++) a = Math.max(a, bits[i]! & MAGNITUDE);
  word[0] = Math.max(a, b, c, d);
  return single[0]!;
}

/**
 * Returns count and sum (f64, by ascending index) of the magnitudes above a threshold, which is rounded to f32 first.
 */
export function sumAbove(
  { floats, bits }: ChunkValues,
  n: number,
  threshold: number,
): { count: number; sum: number } {
  const least = singleBits(threshold);
  let sum = 0;
  let count = 0;
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    // 1 or 0 without a branch: half of the values are above, so a branch would be unpredictable
    const a = (least - (bits[i]! & MAGNITUDE)) >>> 31;
    const b = (least - (bits[i + 1]! & MAGNITUDE)) >>> 31;
    const c = (least - (bits[i + 2]! & MAGNITUDE)) >>> 31;
    const d = (least - (bits[i + 3]! & MAGNITUDE)) >>> 31;
    count += a + b + c + d;
    sum += Math.abs(floats[i]!) * a;
    sum += Math.abs(floats[i + 1]!) * b;
    sum += Math.abs(floats[i + 2]!) * c;
    sum += Math.abs(floats[i + 3]!) * d;
  }
  for (let i = whole; i < n; i++) {
    const above = (least - (bits[i]! & MAGNITUDE)) >>> 31;
    count += above;
    sum += Math.abs(floats[i]!) * above;
  }
  return { count, sum };
}

export function sumAboveSampled(
  { floats, bits }: ChunkValues,
  n: number,
  threshold: number,
): { count: number; sum: number } {
  const least = singleBits(threshold);
  let sum = 0;
  let count = 0;
  for (let i = 0; i < n; i += SAMPLE) {
    const above = (least - (bits[i]! & MAGNITUDE)) >>> 31;
    count += above;
    sum += Math.abs(floats[i]!) * above;
  }
  return { count, sum };
}

const single = new Float32Array(1);
const word = new Int32Array(single.buffer);

export function singleBits(value: number): number {
  single[0] = value;
  return word[0]!;
}

/** First estimates read every fifth value: a fifth of the time, and still every column of a matrix. */
export const SAMPLE = 5;

const ROUNDER = 1.5 * 2 ** 52;

/** Rounds a number within ±2^31 to the nearest integer, ties to even: near 1.5 × 2^52 an f64 has no fraction bits. */
export const nearest = (value: number): number => (value + ROUNDER - ROUNDER) | 0;

/** Loads the values of a chunk as f32. Throws a TrainingError if one is not finite. */
export function loadChunk(delta: Vector, from: number, n: number, values: ChunkValues): void {
  const { floats } = values;
  floats.set(delta.subarray(from, from + n));
  // f32 magnitudes of one chunk cannot overflow the f64 sum
  addUp(values, n);
  if (Number.isFinite(values.sum)) return;
  const at = from + floats.subarray(0, n).findIndex((value) => !Number.isFinite(value));
  throw new TrainingError('codec/not-finite', `value ${at} of the delta is ${delta[at]}`, {
    hint: 'training diverged; lower the learning rate or clip gradients',
  });
}
