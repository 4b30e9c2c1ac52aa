/**
 * The code `trellis`: a chunk is rotated, then coded by itself as a scale and a fixed number of bits. The scale makes a
 * chunk unbiased: the product of delta and decoded values is the square of the delta.
 */
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { inverseRotate, rotate, rotatedLength } from './rotation.ts';
import { CODEWORD_SIZE, codebook, decodeBits, stepLength } from './trellis-book.ts';
import {
  type ChunkCode,
  LEAST_LEVEL,
  levelBits,
  levelOf,
  nearest,
  readLevelBits,
  refuseLevel,
  writeLevelBits,
} from './value-code.ts';
import { searchBits } from './viterbi.ts';

/** Bytes of a chunk's scale. */
export const SCALE_BYTES = 2;
/** Bits of the largest scale, 2^112, with which every decoded value is a finite f32. */
const MOST_SCALE = 0x7780;
const MOST_INT16 = 32_767;
/** Largest square of the gain, so that the sums of the search fit 32 bits. */
const MOST_SQUARED_GAIN = 16;

const workBuffer = new Float64Array(CHUNK_LENGTH);

export const trellis: ChunkCode = {
  bytes: (n, kept) => SCALE_BYTES + codeBytes(kept, rotatedLength(n)),

  write(values, { chunk, n, at, bytes }, scope, out) {
    const rotated = workBuffer.subarray(0, rotatedLength(n)).fill(0);
    rotated.set(values);
    rotate(rotated, chunk, scope);
    let energy = 0;
    for (const value of rotated) energy += value * value;
    if (energy === 0) return;
    const bits = 8 * (bytes - SCALE_BYTES);
    const codes = search(rotated, bits, energy);
    const decoded = new Float64Array(rotated.length);
    decode(codes, 0, bits, 1, decoded);
    let along = 0;
    for (let i = 0; i < rotated.length; i++) along += rotated[i]! * decoded[i]!;
    const scale = along > 0 ? levelBits(energy / along) : 0;
    if (scale > MOST_SCALE) refuseLevel('scale', energy / along);
    // without a scale, codes mean nothing
    if (scale === 0) return;
    writeLevelBits(out, at, scale);
    out.set(codes, at + SCALE_BYTES);
  },

  flaw(payload, { at, bytes }) {
    const scale = readLevelBits(payload, at);
    if (scale !== 0 && (scale < LEAST_LEVEL || scale > MOST_SCALE)) return 'bad-level';
    const codes = payload.subarray(at + SCALE_BYTES, at + bytes);
    return scale === 0 && codes.some((byte) => byte !== 0) ? 'bad-value' : undefined;
  },

  add(payload, { chunk, n, at, bytes }, scope, weight, target, from) {
    const scale = levelOf(readLevelBits(payload, at));
    if (scale === 0) return;
    const values = workBuffer.subarray(0, rotatedLength(n)).fill(0);
    decode(payload, at + SCALE_BYTES, 8 * (bytes - SCALE_BYTES), scale, values);
    inverseRotate(values, chunk, scope);
    for (let i = 0; i < n; i++) target[from + i] = target[from + i]! + weight * values[i]!;
  },
};

/** Returns the bytes of codes of a chunk of n values: its share of `kept`, rounded half up, at least 1. */
const codeBytes = (kept: number, n: number): number =>
  Math.max(1, Math.floor((2 * kept * n + CHUNK_LENGTH) / (2 * CHUNK_LENGTH)));

/** Returns the bits whose codewords fit the values best. */
function search(values: Float64Array, bits: number, energy: number): Uint8Array {
  const count = values.length;
  const factor = CODEWORD_SIZE * gain(bits / count) * Math.sqrt(count / energy);
  const integers = Int16Array.from(values, (value) =>
    Math.max(-MOST_INT16, Math.min(MOST_INT16, nearest(value * factor))),
  );
  return searchBits(integers, bits);
}

/**
 * Returns the size of values relative to codewords in the search: at few bits a value, the nearest codewords are
 * shorter than the values. Close to 1 / (1 - 2^(-2 rate)), squared.
 */
const gain = (rate: number): number =>
  Math.sqrt(Math.max(1, Math.min(MOST_SQUARED_GAIN, 0.5 + 0.72 / rate)));

let book = codebook(0);
let bookLength = 0;

/** Writes the rotated values of a chunk. The codebook of the last step length is kept. */
function decode(
  payload: Uint8Array,
  at: number,
  bits: number,
  scale: number,
  values: Float64Array,
): void {
  const count = values.length;
  const length = stepLength(count, bits);
  if (length !== bookLength) [book, bookLength] = [codebook(length), length];
  decodeBits(payload, { at, bits, count }, book, scale, values);
}
