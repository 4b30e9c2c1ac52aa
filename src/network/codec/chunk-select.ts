/**
 * The k largest magnitudes of a chunk, equal ones going to the lower index: a radix select over the 31 bits of the magnitude,
 * 11, 10 and 10 at a time. A few passes whatever k is.
 */
import { type ChunkValues, MAGNITUDE } from './values/value-code.ts';

/** Counts per digit, and the candidates that share the digits so far; room for one chunk. */
export interface SelectionRoom {
  readonly counts: Uint16Array;
  readonly candidates: Int32Array;
}

/** Room to select from chunks of up to this many values. */
export const selectionRoom = (length: number): SelectionRoom => ({
  counts: new Uint16Array(2048),
  candidates: new Int32Array(length),
});

/** Writes the k ascending indices of the first n values that are sent. */
export function selectInChunk(
  values: ChunkValues,
  n: number,
  k: number,
  room: SelectionRoom,
  indices: Uint16Array,
): void {
  const { least, above } = threshold(values.bits, n, k, room);
  let ties = k - above;
  let to = 0;
  for (let i = 0; to < k; i++) {
    const magnitude = values.bits[i]! & MAGNITUDE;
    // written always, kept only where the place moves on: no branch on the magnitude but for ties
    indices[to] = i;
    if (magnitude === least) to += ties-- > 0 ? 1 : 0;
    else to += (least - magnitude) >>> 31;
  }
}

/** The smallest magnitude that is sent, and how many are above it. */
function threshold(
  bits: Int32Array,
  n: number,
  k: number,
  { counts, candidates }: SelectionRoom,
): { least: number; above: number } {
  counts.fill(0);
  for (let i = 0; i < n; i++) {
    const digit = (bits[i]! & MAGNITUDE) >>> 20;
    counts[digit] = counts[digit]! + 1;
  }
  const top = descend(counts, 2047, k);
  let left = 0;
  for (let i = 0; i < n; i++) {
    const magnitude = bits[i]! & MAGNITUDE;
    candidates[left] = magnitude;
    left += ((magnitude >>> 20 !== top.digit ? 1 : 0) - 1) >>> 31;
    if (left === n) break;
  }
  let { digit: prefix, above } = top;
  for (const shift of [10, 0]) {
    counts.fill(0, 0, 1024);
    for (let i = 0; i < left; i++) {
      const digit = (candidates[i]! >>> shift) & 1023;
      counts[digit] = counts[digit]! + 1;
    }
    const next = descend(counts, 1023, k - above);
    above += next.above;
    prefix = (prefix << 10) | next.digit;
    let kept = 0;
    for (let i = 0; i < left; i++) {
      const candidate = candidates[i]!;
      if (candidate >>> shift === prefix) candidates[kept++] = candidate;
    }
    left = kept;
  }
  return { least: prefix, above };
}

/** The digit that the `wanted`-th largest has, and how many have a larger one. */
function descend(
  counts: Uint16Array,
  from: number,
  wanted: number,
): { digit: number; above: number } {
  let digit = from;
  let above = 0;
  while (above + counts[digit]! < wanted) above += counts[digit--]!;
  return { digit, above };
}
