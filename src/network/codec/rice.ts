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
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const end = 8 * bytes.length;
  let bit = 8 * at;
  let index = -1;
  for (let i = 0; i < k; i++) {
    let gap = 0;
    let window = windowAt(view, bit);
    let ones = trailingOnes(window);
    while (ones > LONGEST_RUN) {
      gap += LONGEST_RUN << r;
      if (gap >= n) return 'bad-index';
      bit += LONGEST_RUN;
      window = windowAt(view, bit);
      ones = trailingOnes(window);
    }
    gap += (ones << r) | ((window >>> (ones + 1)) & mask);
    bit += ones + 1 + r;
    index += 1 + gap;
    if (index >= n) return 'bad-index';
    if (bit > end) return 'truncated';
    indices[from + i] = index;
  }
  const unused = bit & 7;
  if (unused > 0 && bytes[bit >>> 3]! >>> unused !== 0) return 'bad-padding';
  return (bit + 7) >>> 3;
}

/** Bits of a window; a load of four bytes holds as many wherever in its first byte one begins. */
const WINDOW = 25;
/** More ones than this are read in parts, so that a gap fits a window: ones, a zero and the low bits. */
const LONGEST_RUN = WINDOW - 1 - LARGEST_PARAMETER;

/** The bits from a place on, the first one lowest; zeros beyond the end. */
function windowAt(view: DataView, bit: number): number {
  const at = bit >>> 3;
  let word = 0;
  if (at + 4 <= view.byteLength) word = view.getUint32(at, true);
  else for (let i = at; i < view.byteLength; i++) word |= view.getUint8(i) << (8 * (i - at));
  return (word >>> (bit & 7)) & ((1 << WINDOW) - 1);
}

/** How many of the lowest bits of a window are 1. */
const trailingOnes = (window: number): number => 31 - Math.clz32(~window & (window + 1));
