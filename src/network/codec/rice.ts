/**
 * Which values of a chunk are sent: the gaps between ascending indices in Rice code (Rice 1979), lowest bit of a byte first.
 * A gap g is g >> r ones, a zero, and the low r bits of g. The parameter r follows from the counts, so there is nothing to
 * choose and one set of indices has one spelling. A bitmap is never shorter: with r = 0 this code is one.
 */

/** No gap in a chunk of 4096 needs more. */
const LARGEST_PARAMETER = 12;

/** Why indices from a stranger are not the spelling of any set. */
export type RiceFlaw = 'truncated' | 'bad-index' | 'bad-padding';

/** Bits that k indices below n take at most: gaps add up to n - k at most, so their upper parts do to (n - k) >> r. */
const bitsAtMost = (n: number, k: number, r: number): number => k * (r + 1) + ((n - k) >>> r);

/** The r with the fewest bits at worst, the least such r. */
export function riceParameter(n: number, k: number): number {
  let best = 0;
  for (let r = 1; r <= LARGEST_PARAMETER; r++) {
    if (bitsAtMost(n, k, r) < bitsAtMost(n, k, best)) best = r;
  }
  return best;
}

/** Bytes that k indices below n take at most. */
export const riceBytesAtMost = (n: number, k: number): number =>
  Math.ceil(bitsAtMost(n, k, riceParameter(n, k)) / 8);

/** Writes k ascending indices; returns where the bytes end. */
export function writeRice(
  indices: Uint16Array,
  k: number,
  r: number,
  out: Uint8Array,
  at: number,
): number {
  const mask = (1 << r) - 1;
  let to = at;
  let bits = 0;
  let fill = 0;
  let next = 0;
  for (let i = 0; i < k; i++) {
    const gap = indices[i]! - next;
    next = indices[i]! + 1;
    let ones = gap >>> r;
    for (; ones >= 8; ones -= 8) {
      bits |= 0xff << fill;
      out[to++] = bits;
      bits >>>= 8;
    }
    bits |= (((1 << ones) - 1) | ((gap & mask) << (ones + 1))) << fill;
    for (fill += ones + 1 + r; fill >= 8; fill -= 8) {
      out[to++] = bits;
      bits >>>= 8;
    }
  }
  if (fill > 0) out[to++] = bits;
  return to;
}

/** Reads k ascending indices below n into `indices` from `from` on; returns where the bytes end, or what is wrong. */
export function readRice(
  bytes: Uint8Array,
  at: number,
  { n, k, r }: { readonly n: number; readonly k: number; readonly r: number },
  indices: Uint16Array,
  from: number,
): number | RiceFlaw {
  const mask = (1 << r) - 1;
  let read = at;
  let bits = 0;
  let fill = 0;
  let index = -1;
  for (let i = 0; i < k; i++) {
    let gap = 0;
    for (;;) {
      if (fill === 0) {
        if (read >= bytes.length) return 'truncated';
        bits = bytes[read++]!;
        fill = 8;
      }
      // the lowest zero bit; bits above the fill are zero
      const ones = 31 - Math.clz32(~bits & (bits + 1));
      if (ones < fill) {
        gap += ones << r;
        bits >>>= ones + 1;
        fill -= ones + 1;
        break;
      }
      gap += fill << r;
      bits = 0;
      fill = 0;
      if (gap >= n) return 'bad-index';
    }
    for (; fill < r; fill += 8) {
      if (read >= bytes.length) return 'truncated';
      bits |= bytes[read++]! << fill;
    }
    index += 1 + gap + (bits & mask);
    if (index >= n) return 'bad-index';
    bits >>>= r;
    fill -= r;
    indices[from + i] = index;
  }
  return bits === 0 ? read : 'bad-padding';
}
