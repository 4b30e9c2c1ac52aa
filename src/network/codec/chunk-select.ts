/**
 * The k largest magnitudes of a chunk, equal ones going to the lower index: a radix select over the 31 bits of the magnitude,
 * 11, 10 and 10 at a time. Two passes over the chunk whatever k is; the rest looks at little more than k values.
 */
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { type ChunkValues, MAGNITUDE, singleBits } from './values/value-code.ts';

/** The top digit of a magnitude is its exponent and three bits of its fraction; this many bits are below it. */
const BELOW_TOP = 20;
const TOP_DIGITS = 2048;

/** Where the selection counts; one serves for all chunks. */
export interface SelectionRoom {
  /** Values per digit; of top digits, those of negative values come after those of positive ones. */
  readonly counts: Uint16Array;
  /** Magnitudes, without their top digit, of the values that may be dropped. */
  readonly candidates: Int32Array;
}

/** Room for any chunk. */
export const selectionRoom = (): SelectionRoom => ({
  counts: new Uint16Array(2 * TOP_DIGITS),
  candidates: new Int32Array(CHUNK_LENGTH),
});

/** Writes the k ascending indices of the first n values that are sent; `indices` has room for n. */
export function selectInChunk(
  { bits, sum }: ChunkValues,
  n: number,
  k: number,
  room: SelectionRoom,
  indices: Uint16Array,
): void {
  const { counts } = room;
  countTopDigits(bits, n, counts);
  // no magnitude is above their sum
  let digit = singleBits(sum) >>> BELOW_TOP;
  let above = 0;
  for (;;) {
    const here = counts[digit]! + counts[TOP_DIGITS + digit]!;
    if (above + here >= k) break;
    above += here;
    digit--;
  }
  const found = gatherAbove(bits, n, (digit << BELOW_TOP) - 1, indices);
  if (found > k) dropSmallest(bits, k, found, { digit, above }, room, indices);
}

/** Four at a time and signs apart: neighbors that add to the same counter wait for each other. */
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

/** Writes the indices of magnitudes above a threshold; returns how many. */
function gatherAbove(bits: Int32Array, n: number, threshold: number, indices: Uint16Array): number {
  let found = 0;
  const whole = n & ~3;
  // written always, kept only where the place moves on: no branch on what no processor can guess
  for (let i = 0; i < whole; i += 4) {
    indices[found] = i;
    found += (threshold - (bits[i]! & MAGNITUDE)) >>> 31;
    indices[found] = i + 1;
    found += (threshold - (bits[i + 1]! & MAGNITUDE)) >>> 31;
    indices[found] = i + 2;
    found += (threshold - (bits[i + 2]! & MAGNITUDE)) >>> 31;
    indices[found] = i + 3;
    found += (threshold - (bits[i + 3]! & MAGNITUDE)) >>> 31;
  }
  for (let i = whole; i < n; i++) {
    indices[found] = i;
    found += (threshold - (bits[i]! & MAGNITUDE)) >>> 31;
  }
  return found;
}

/** Of the indices found, whose magnitudes have the top digit or a larger one, keeps k. */
function dropSmallest(
  bits: Int32Array,
  k: number,
  found: number,
  top: Rank,
  { counts, candidates }: SelectionRoom,
  indices: Uint16Array,
): void {
  const beyond = (top.digit + 1) << BELOW_TOP;
  let length = 0;
  for (let i = 0; i < found; i++) {
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
    // 1 for one that equals the least and still has room
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

/** The digit below 1024 that the `wanted`-th largest has, and how many have a larger one. */
function descend(counts: Uint16Array, wanted: number): Rank {
  let digit = 1023;
  let above = 0;
  while (above + counts[digit]! < wanted) above += counts[digit--]!;
  return { digit, above };
}
