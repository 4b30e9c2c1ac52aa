/**
 * Which values of a delta travel: exactly the k largest by magnitude, equal magnitudes going to the lower index. A radix
 * select over the magnitude's bits, 16 at a time, so the cost is a few passes whatever k is.
 */
import { ConfigError } from '../../base/errors.ts';
import type { Vector } from '../../tensor/params.ts';

const DIGITS = 0x10000;
const PROBE = new Uint32Array(new Float64Array([1]).buffer);
/** Where the sign-and-exponent word of a double sits on this machine. */
const HIGH = PROBE[0] === 0 ? 1 : 0;

/** How many of `total` values a ratio sends: at least one, rounded up, with the product taken in double arithmetic. */
export function selectedCount(total: number, ratio: number): number {
  if (!(ratio > 0 && ratio <= 1)) {
    throw new ConfigError('codec/ratio', `the sent share must be within (0, 1], not ${ratio}`, {
      hint: 'use 1 to send every value or, for example, 0.1 to send a tenth',
    });
  }
  return Math.min(total, Math.max(1, Math.ceil(total * ratio)));
}

/** Ascending indices of the `count` largest magnitudes of finite values. */
export function selectLargest(values: Vector, count: number): Uint32Array {
  const out = new Uint32Array(count);
  if (count === values.length) {
    for (let i = 0; i < count; i++) out[i] = i;
    return out;
  }
  const { magnitude, ties } = threshold(values, count);
  let left = ties;
  let at = 0;
  for (let i = 0; at < count; i++) {
    const size = Math.abs(values[i]!);
    if (size > magnitude) out[at++] = i;
    else if (size === magnitude && left > 0) {
      left--;
      out[at++] = i;
    }
  }
  return out;
}

/** The smallest magnitude that is sent, and how many values of exactly that magnitude are. */
function threshold(values: Vector, count: number): { magnitude: number; ties: number } {
  const digits = values instanceof Float32Array ? 2 : 4;
  const read = digitReader(values);
  const histogram = new Uint32Array(DIGITS);
  let candidates: Uint32Array | undefined;
  let ties = count;
  for (let digit = 0; digit < digits; digit++) {
    histogram.fill(0);
    const total = candidates?.length ?? values.length;
    for (let i = 0; i < total; i++) {
      const key = read(candidates === undefined ? i : candidates[i]!, digit);
      histogram[key] = histogram[key]! + 1;
    }
    let bucket = DIGITS - 1;
    for (; histogram[bucket]! < ties; bucket--) ties -= histogram[bucket]!;
    candidates = narrow(candidates, total, histogram[bucket]!, (i) => read(i, digit) === bucket);
  }
  return { magnitude: Math.abs(values[candidates![0]!]!), ties };
}

/** The members of a candidate list (or of all indices) that pass. */
function narrow(
  from: Uint32Array | undefined,
  total: number,
  size: number,
  keep: (index: number) => boolean,
): Uint32Array {
  const out = new Uint32Array(size);
  let at = 0;
  for (let i = 0; at < size && i < total; i++) {
    const index = from === undefined ? i : from[i]!;
    if (keep(index)) out[at++] = index;
  }
  return out;
}

/** Reads 16 bits of a value's magnitude, the most significant ones first; order of bits is order of magnitudes. */
function digitReader(values: Vector): (index: number, digit: number) => number {
  const words = new Uint32Array(
    values.buffer,
    values.byteOffset,
    values.byteLength / Uint32Array.BYTES_PER_ELEMENT,
  );
  if (values instanceof Float32Array) {
    return (i, digit) => (digit === 0 ? (words[i]! >>> 16) & 0x7fff : words[i]! & 0xffff);
  }
  return (i, digit) => {
    const word = words[2 * i + (digit < 2 ? HIGH : 1 - HIGH)]!;
    if (digit === 0) return (word >>> 16) & 0x7fff;
    return digit === 2 ? word >>> 16 : word & 0xffff;
  };
}
