/**
 * The k largest magnitudes of a chunk, equal ones going to the lower index: a radix select over the 31 bits of the magnitude,
 * 11, 10 and 10 at a time. Two passes over the chunk whatever k is; the rest looks at little more than k values.
 */
import { type ChunkValues, MAGNITUDE } from './values/value-code.ts';

/** Values per digit; room for any chunk. */
export const selectionRoom = (): Uint16Array => new Uint16Array(2048);

/** Writes the k ascending indices of the first n values that are sent; `indices` has room for n. */
export function selectInChunk(
  { bits }: ChunkValues,
  n: number,
  k: number,
  counts: Uint16Array,
  indices: Uint16Array,
): void {
  counts.fill(0);
  for (let i = 0; i < n; i++) {
    const digit = (bits[i]! & MAGNITUDE) >>> 20;
    counts[digit] = counts[digit]! + 1;
  }
  const top = descend(counts, 2047, k);
  const below = (top.digit << 20) - 1;
  let found = 0;
  for (let i = 0; i < n; i++) {
    // written always, kept only where the place moves on: no branch on what no processor can guess
    indices[found] = i;
    found += (below - (bits[i]! & MAGNITUDE)) >>> 31;
  }
  if (found > k) dropSmallest(bits, k, found, top, counts, indices);
}

/** Of the indices found, whose magnitudes have the top digit or a larger one, keeps k. */
function dropSmallest(
  bits: Int32Array,
  k: number,
  found: number,
  top: Rank,
  counts: Uint16Array,
  indices: Uint16Array,
): void {
  let { digit: prefix, above } = top;
  for (const shift of [10, 0]) {
    counts.fill(0, 0, 1024);
    for (let i = 0; i < found; i++) {
      const magnitude = bits[indices[i]!]! & MAGNITUDE;
      if (magnitude >>> (shift + 10) !== prefix) continue;
      const digit = (magnitude >>> shift) & 1023;
      counts[digit] = counts[digit]! + 1;
    }
    const next = descend(counts, 1023, k - above);
    above += next.above;
    prefix = (prefix << 10) | next.digit;
  }
  let ties = k - above;
  let to = 0;
  for (let i = 0; to < k; i++) {
    const index = indices[i]!;
    const magnitude = bits[index]! & MAGNITUDE;
    if (magnitude > prefix || (magnitude === prefix && ties-- > 0)) indices[to++] = index;
  }
}

interface Rank {
  readonly digit: number;
  readonly above: number;
}

/** The digit that the `wanted`-th largest has, and how many have a larger one. */
function descend(counts: Uint16Array, from: number, wanted: number): Rank {
  let digit = from;
  let above = 0;
  while (above + counts[digit]! < wanted) above += counts[digit--]!;
  return { digit, above };
}
