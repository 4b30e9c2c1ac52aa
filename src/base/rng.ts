/**
 * A counter-based pseudo-random generator: Philox4x32-10 (Salmon et al., SC 2011, "Parallel random numbers: as easy as
 * 1, 2, 3"). Stateless: any draw can be recomputed from (key, counter) alone.
 */
import { hashFields } from './hash.ts';

/** Two 32-bit key words. */
export type Key = readonly [number, number];

const M0 = 0xd2511f53;
const M1 = 0xcd9e8d57;
const W0 = 0x9e3779b9;
const W1 = 0xbb67ae85;

/** High 32 bits of the unsigned product of two 32-bit words. */
function mulHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const low = Math.imul(aLow, bLow) >>> 0;
  const mid1 = aHigh * bLow + (low >>> 16);
  const mid2 = aLow * bHigh + (mid1 % 0x10000);
  return aHigh * bHigh + Math.floor(mid1 / 0x10000) + Math.floor(mid2 / 0x10000);
}

/** Returns the four 32-bit words of one Philox4x32-10 block. */
export function philox(
  key: Key,
  c0: number,
  c1: number,
  c2: number,
  c3: number,
): [number, number, number, number] {
  let [k0, k1] = key;
  let [x0, x1, x2, x3] = [c0 >>> 0, c1 >>> 0, c2 >>> 0, c3 >>> 0];
  for (let round = 0; round < 10; round++) {
    const high0 = mulHigh(M0, x0);
    const low0 = Math.imul(M0, x0) >>> 0;
    const high1 = mulHigh(M1, x2);
    const low1 = Math.imul(M1, x2) >>> 0;
    [x0, x1, x2, x3] = [(high1 ^ x1 ^ k0) >>> 0, low1, (high0 ^ x3 ^ k1) >>> 0, low0];
    k0 = (k0 + W0) >>> 0;
    k1 = (k1 + W1) >>> 0;
  }
  return [x0, x1, x2, x3];
}

/** Derives the key of a named stream: 64 bits of a hash over the label and its fields. */
export function deriveKey(label: string, ...fields: readonly (string | number)[]): Key {
  const view = new DataView(hashFields(label, ...fields).buffer);
  return [view.getUint32(0, true), view.getUint32(4, true)];
}

/** Maps a 32-bit word to a uniform double in (0, 1); never 0 and never 1. */
export const unit = (word: number): number => (word + 0.5) / 0x1_0000_0000;

/** Maps a 32-bit word to an integer in [0, bound); the bias is at most bound / 2^32. */
export const below = (word: number, bound: number): number =>
  Math.floor((word / 0x1_0000_0000) * bound);
