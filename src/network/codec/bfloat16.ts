/** bfloat16, the upper half of an f32: how every level of a payload is stored. By bit operations alone. */
import { TrainingError } from '../../base/errors.ts';

const word = new Uint32Array(1);
const single = new Float32Array(word.buffer);

/** Bits of the smallest normal level, 2^-126; below it a chunk counts as zero. */
const LEAST = 0x0080;
/** Bits of infinity. */
const INFINITE = 0x7f80;

/**
 * Bits of a level that is not negative: rounded to f32, then to bfloat16, both to nearest, ties to even; 0 below the normal
 * numbers. Throws beyond the largest.
 */
export function levelBits(level: number): number {
  single[0] = level;
  const bits = (word[0]! + 0x7fff + ((word[0]! >>> 16) & 1)) >>> 16;
  if (bits >= INFINITE) {
    throw new TrainingError('codec/range', `a delta with a level of ${level} cannot be sent`, {
      hint: 'training diverged; lower the learning rate or clip gradients',
    });
  }
  return bits < LEAST ? 0 : bits;
}

/** The value of bfloat16 bits, exactly. */
export function levelOf(bits: number): number {
  word[0] = bits << 16;
  return single[0]!;
}

/** Zero or a positive normal number: what `levelBits` can give. */
export const isLevel = (bits: number): boolean => bits === 0 || (bits >= LEAST && bits < INFINITE);

/** The u16 at a position, little-endian. */
export const readLevelBits = (bytes: Uint8Array, at: number): number =>
  bytes[at]! | (bytes[at + 1]! << 8);

/** Writes a u16, little-endian. */
export function writeLevelBits(bytes: Uint8Array, at: number, bits: number): void {
  bytes[at] = bits & 0xff;
  bytes[at + 1] = bits >>> 8;
}
