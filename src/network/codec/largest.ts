/**
 * Selects the k largest values of a chunk (radix select, ties to the lower index) and codes their indices as gaps in
 * Rice code.
 */
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { type ChunkValues, MAGNITUDE, singleBits } from './value-code.ts';

/** Bits below the top digit of a magnitude; the top digit is the f32 exponent and three fraction bits. */
const BELOW_TOP = 20;
const TOP_DIGITS = 2048;

export interface SelectionBuffers {
  /** Number of values per digit. Of top digits, counts of negative values follow those of positive ones. */
  readonly counts: Uint16Array;
  readonly candidates: Int32Array;
}

export const createSelectionBuffers = (): SelectionBuffers => ({
  counts: new Uint16Array(2 * TOP_DIGITS),
  candidates: new Int32Array(CHUNK_LENGTH),
});

/** Writes the ascending indices of the k largest of the first n values; `indices` has at least n elements. */
export function selectInChunk(
  { bits, sum }: ChunkValues,
  n: number,
  k: number,
  buffers: SelectionBuffers,
  indices: Uint16Array,
): void {
  const { counts } = buffers;
  countTopDigits(bits, n, counts);
  // the largest magnitude is at most the sum of magnitudes, so the search starts at the top digit of the sum
  let digit = singleBits(sum) >>> BELOW_TOP;
  let above = 0;
  for (;;) {
    const inDigit = counts[digit]! + counts[TOP_DIGITS + digit]!;
    if (above + inDigit >= k) break;
    above += inDigit;
    digit--;
  }
  const count = gatherAbove(bits, n, (digit << BELOW_TOP) - 1, indices);
  if (count > k) dropSmallest(bits, k, count, { digit, above }, buffers, indices);
}

/**
 * Counts top digits, four at a time with signs apart, since neighbours that add to the same counter stall each other.
 */
function countTopDigits(bits: Int32Array, n: number, counts: Uint16Array): void {
  counts.fill(0);
  const whole = n & ~3;
  for (let i = 0; i < whole; i += 4) {
    const a = bits[i]! >>> BELOW_TOP;
    const b = bits[i + 1]! >>> BELOW_TOP;
    const c = bits[i + 2]! >>> BELOW_TOP;
    const d = bits[i + 3]! >>> BELOW_TOP;
    counts[a] = counts[a]! + 1;
    counts[b] = counts[b]! + 1;
    counts[c] = counts[c]! + 1;
    counts[d] = counts[d]! + 1;
  }
  for (let i = whole; i < n; i++) {
    const digit = bits[i]! >>> BELOW_TOP;
    counts[digit] = counts[digit]! + 1;
  }
}

/** Writes the indices of magnitudes above a threshold; returns how many there are. */
function gatherAbove(bits: Int32Array, n: number, threshold: number, indices: Uint16Array): number {
  let count = 0;
  const whole = n & ~3;
  // branchless: always write, and advance only if the magnitude is above, since the branch is unpredictable
  for (let i = 0; i < whole; i += 4) {
    indices[count] = i;
    count += (threshold - (bits[i]! & MAGNITUDE)) >>> 31;
    indices[count] = i + 1;
    count += (threshold - (bits[i + 1]! & MAGNITUDE)) >>> 31;
    indices[count] = i + 2;
    count += (threshold - (bits[i + 2]! & MAGNITUDE)) >>> 31;
    indices[count] = i + 3;
    count += (threshold - (bits[i + 3]! & MAGNITUDE)) >>> 31;
  }
  for (let i = whole; i < n; i++) {
    indices[count] = i;
    count += (threshold - (bits[i]! & MAGNITUDE)) >>> 31;
  }
  return count;
}

/** Keeps the k largest of the gathered indices, whose magnitudes have the top digit or a larger one. */
function dropSmallest(
  bits: Int32Array,
  k: number,
  count: number,
  top: Rank,
  { counts, candidates }: SelectionBuffers,
  indices: Uint16Array,
): void {
  const beyond = (top.digit + 1) << BELOW_TOP;
  let length = 0;
  for (let i = 0; i < count; i++) {
    const magnitude = bits[indices[i]!]! & MAGNITUDE;
    candidates[length] = magnitude & ((1 << BELOW_TOP) - 1);
    length += (magnitude - beyond) >>> 31;
  }
  counts.fill(0, 0, 1024);
  for (let i = 0; i < length; i++) {
    const digit = candidates[i]! >>> 10;
    counts[digit] = counts[digit]! + 1;
  }
  const middle = descend(counts, k - top.above);
  counts.fill(0, 0, 1024);
  for (let i = 0; i < length; i++) {
    if (candidates[i]! >>> 10 !== middle.digit) continue;
    const digit = candidates[i]! & 1023;
    counts[digit] = counts[digit]! + 1;
  }
  const last = descend(counts, k - top.above - middle.above);
  const least = (top.digit << BELOW_TOP) | (middle.digit << 10) | last.digit;
  let ties = k - top.above - middle.above - last.above;
  let to = 0;
  for (let i = 0; to < k; i++) {
    const index = indices[i]!;
    const magnitude = bits[index]! & MAGNITUDE;
    // 1 if the magnitude equals the least and ties are left
    const tie = (((magnitude ^ least) - 1) & -ties) >>> 31;
    indices[to] = index;
    to += ((least - magnitude) >>> 31) + tie;
    ties -= tie;
  }
}

interface Rank {
  readonly digit: number;
  readonly above: number;
}

/** Returns the digit (below 1024) of the `wanted`-th largest value, and how many values have a larger digit. */
function descend(counts: Uint16Array, wanted: number): Rank {
  let digit = 1023;
  let above = 0;
  while (above + counts[digit]! < wanted) above += counts[digit--]!;
  return { digit, above };
}

/** Largest Rice parameter: gaps within a chunk of 4096 need no more. */
const LARGEST_PARAMETER = 12;

/** Why coded indices are not canonical. */
export type RiceFlaw = 'truncated' | 'bad-index' | 'bad-padding';

/**
 * Upper bound on the bits of k indices below n: gaps add up to at most n - k, so their upper parts to (n - k) >> r.
 */
const bitsAtMost = (n: number, k: number, r: number): number => k * (r + 1) + ((n - k) >>> r);

/** Returns the Rice parameter with the smallest upper bound; ties go to the smaller parameter. */
export function riceParameter(n: number, k: number): number {
  let best = 0;
  for (let r = 1; r <= LARGEST_PARAMETER; r++) {
    if (bitsAtMost(n, k, r) < bitsAtMost(n, k, best)) best = r;
  }
  return best;
}

/** Returns an upper bound on the bytes of k indices below n. */
export const riceBytesAtMost = (n: number, k: number): number =>
  Math.ceil(bitsAtMost(n, k, riceParameter(n, k)) / 8);

/** Writes k ascending indices; returns the end offset. */
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

/** Reads k ascending indices below n into `indices` from `from` on. Returns the end offset, or what is wrong. */
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

/** Bits per window: a 4-byte load contains as many, at whatever bit of its first byte the window begins. */
const WINDOW = 25;
/**
 * Longest run of ones read at once, so that a gap (ones, a zero, low bits) fits in a window; longer runs take several.
 */
const LONGEST_RUN = WINDOW - 1 - LARGEST_PARAMETER;

function windowAt(view: DataView, bit: number): number {
  const at = bit >>> 3;
  let word = 0;
  if (at + 4 <= view.byteLength) word = view.getUint32(at, true);
  else for (let i = at; i < view.byteLength; i++) word |= view.getUint8(i) << (8 * (i - at));
  return (word >>> (bit & 7)) & ((1 << WINDOW) - 1);
}

const trailingOnes = (window: number): number => 31 - Math.clz32(~window & (window + 1));
