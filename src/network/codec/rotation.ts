/**
 * Randomized Hadamard rotation of chunks (EDEN, arXiv 2108.08842): random sign flips, then a Hadamard transform. After
 * it all values have a similar size, so rounding adds noise instead of zeroing small values. Same bits on every engine.
 */
import { type Key, philox } from '../../base/rng.ts';
import type { PayloadScope } from './header.ts';

/** Length of a rotated chunk of n values (1 to 4096): the smallest power of two that is at least n. */
export function rotatedLength(n: number): number {
  let length = 1;
  while (length < n) length *= 2;
  return length;
}

/** Rotates a chunk in place. `values` has the chunk's values, then zeros up to `rotatedLength`. */
export function rotate(values: Float64Array, chunk: number, scope: PayloadScope): void {
  flip(values, chunk, scope);
  transform(values, Math.ceil);
}

/** Undoes `rotate` in place; exact but for the rounding of f64. */
export function inverseRotate(values: Float64Array, chunk: number, scope: PayloadScope): void {
  transform(values, Math.floor);
  flip(values, chunk, scope);
}

/** Walsh-Hadamard transform in place, two levels at a time, scaled by 2^-half(k / 2) for a length of 2^k. */
function transform(values: Float64Array, half: (power: number) => number): void {
  const { length } = values;
  let powers = 0;
  while (1 << powers < length) powers++;
  let apart = 1;
  if (powers % 2 === 1) {
    for (let i = 0; i < length; i += 2) {
      const a = values[i]!;
      const b = values[i + 1]!;
      values[i] = a + b;
      values[i + 1] = a - b;
    }
    apart = 2;
  }
  for (; apart < length; apart *= 4) {
    for (let from = 0; from < length; from += 4 * apart) {
      const end = from + apart;
      for (let i = from; i < end; i++) twoLevels(values, i, apart);
    }
  }
  const scale = 2 ** -half(powers / 2);
  for (let i = 0; i < length; i++) values[i] = values[i]! * scale;
}

function twoLevels(values: Float64Array, i: number, apart: number): void {
  const a = values[i]!;
  const b = values[i + apart]!;
  const c = values[i + 2 * apart]!;
  const d = values[i + 3 * apart]!;
  const near = a + b;
  const nearOff = a - b;
  const far = c + d;
  const farOff = c - d;
  values[i] = near + far;
  values[i + apart] = nearOff + farOff;
  values[i + 2 * apart] = near - far;
  values[i + 3 * apart] = nearOff - farOff;
}

const wordOf = (bytes: Uint8Array, at: number): number =>
  new DataView(bytes.buffer, bytes.byteOffset).getUint32(at, true);

/** Flips the signs drawn for this sender, round and chunk, so that the rounding errors of senders are independent. */
function flip(values: Float64Array, chunk: number, { run, round, sender }: PayloadScope): void {
  const word = (at: number) => wordOf(run, at) ^ wordOf(sender, at);
  const key: Key = [word(0), word(4)];
  for (let at = 0; at < values.length; at += 128) {
    const words = philox(key, round, chunk, at / 128, 0);
    const end = Math.min(values.length, at + 128);
    for (let i = at; i < end; i++) {
      if (((words[(i - at) >>> 5]! >>> (i & 31)) & 1) === 1) values[i] = -values[i]!;
    }
  }
}
