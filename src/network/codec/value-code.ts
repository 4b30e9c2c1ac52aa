/** What the codes of a chunk share: their interface, levels in bfloat16, rounding, and the check of values. */
import { TrainingError } from '../../base/errors.ts';
import type { Vector } from '../../tensor/params.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import type { PayloadScope } from './header.ts';

/** A chunk of n values in a payload. */
export interface Place {
  readonly chunk: number;
  readonly n: number;
  /** Offset of its first byte. */
  readonly at: number;
  readonly bytes: number;
}

export type Flaw = 'bad-level' | 'bad-value';

/** A code for the values of one chunk: a level in bfloat16, then codes of the values. */
export interface ChunkCode {
  /** Returns the exact number of bytes of n >= 1 values; `kept` is the rate in the header. */
  bytes(n: number, kept: number): number;
  /** Encodes values, all finite, into zeroed bytes. */
  write(values: Float32Array, place: Place, scope: PayloadScope, out: Uint8Array): void;
  /** Returns the first way in which the bytes are not the canonical encoding of n values; undefined if they are. */
  flaw(bytes: Uint8Array, place: Place): Flaw | undefined;
  /** Adds weight × value i, rounded once, to target[from + i]. The bytes must be canonical. */
  add(
    bytes: Uint8Array,
    place: Place,
    scope: PayloadScope,
    weight: number,
    target: Float64Array,
    from: number,
  ): void;
}

const levelWord = new Uint32Array(1);
const levelSingle = new Float32Array(levelWord.buffer);

/** Bits of the smallest normal level, 2^-126; a smaller one counts as 0. */
export const LEAST_LEVEL = 0x0080;
const INFINITE = 0x7f80;

/** Throws a TrainingError for a level or scale that is too large to send. */
export function refuseLevel(what: string, value: number): never {
  throw new TrainingError('codec/range', `${what} ${value} of the delta is out of range`, DIVERGED);
}

const DIVERGED = { hint: 'training diverged; lower the learning rate or clip gradients' };

/**
 * Rounds a level >= 0 to bfloat16 (nearest, ties to even; 0 if subnormal) and returns its bits. Throws a TrainingError
 * if infinite.
 */
export function levelBits(level: number): number {
  levelSingle[0] = level;
  const bits = (levelWord[0]! + 0x7fff + ((levelWord[0]! >>> 16) & 1)) >>> 16;
  if (bits >= INFINITE) refuseLevel('level', level);
  return bits < LEAST_LEVEL ? 0 : bits;
}

/** Returns the value of bfloat16 bits, exactly. */
export function levelOf(bits: number): number {
  levelWord[0] = bits << 16;
  return levelSingle[0]!;
}

/** Reports whether these bits are a level that `levelBits` can return: 0 or a positive normal number. */
export const isLevel = (bits: number): boolean =>
  bits === 0 || (bits >= LEAST_LEVEL && bits < INFINITE);

export const readLevelBits = (bytes: Uint8Array, at: number): number =>
  bytes[at]! | (bytes[at + 1]! << 8);

export function writeLevelBits(bytes: Uint8Array, at: number, bits: number): void {
  bytes[at] = bits & 0xff;
  bytes[at + 1] = bits >>> 8;
}

const ROUNDER = 1.5 * 2 ** 52;

/** Rounds a number within ±2^31 to the nearest integer, ties to even: near 1.5 × 2^52 an f64 has no fraction bits. */
export const nearest = (value: number): number => (value + ROUNDER - ROUNDER) | 0;

/** Returns the values of a chunk as f32. Throws a TrainingError if one is not finite. */
export function loadChunk(delta: Vector, chunk: number, n: number): Float32Array {
  const from = chunk * CHUNK_LENGTH;
  const values = new Float32Array(delta.subarray(from, from + n));
  // f32 magnitudes of one chunk cannot overflow the f64 sum
  let sum = 0;
  for (let i = 0; i < n; i++) sum += Math.abs(values[i]!);
  if (Number.isFinite(sum)) return values;
  const at = from + values.findIndex((value) => !Number.isFinite(value));
  throw new TrainingError('codec/not-finite', `value ${at} of the delta is ${delta[at]}`, DIVERGED);
}
