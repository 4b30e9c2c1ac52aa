/**
 * The one hash tree of the house, so that a part of something large can be checked alone. Its shape is that of RFC 6962 section
 * 2.1: neighbours are joined level by level and the last node of an odd level moves up as it is, never joined with itself.
 * Leaves, nodes and the root are hashed under different prefixes; the root also binds how many parts and bytes there are.
 */
import { concatBytes, toHex, utf8 } from './bytes.ts';
import { sha256 } from './hash.ts';

/** All hashes over some parts. */
export interface MerkleTree {
  /** In lowercase hex. */
  readonly root: string;
  readonly count: number;
  /** Leaves first, the top last. */
  readonly levels: readonly (readonly Uint8Array[])[];
}

/** What the root binds beside the parts. */
export interface TreeSize {
  readonly count: number;
  readonly bytes: number;
}

const LEAF = utf8('nostrain:leaf:');
const NODE = utf8('nostrain:node:');
const ROOT = utf8('nostrain:root:');
export const HASH_BYTES = 32;

/** Hashes parts in their order; there is at least one. A part may be overwritten once the next one is asked for. */
export function merkleTree(parts: Iterable<Uint8Array>, hash = sha256): MerkleTree {
  let level: Uint8Array[] = [];
  let bytes = 0;
  for (const part of parts) {
    bytes += part.length;
    level.push(hash(concatBytes(LEAF, part)));
  }
  const count = level.length;
  if (count === 0) throw new RangeError('a tree over nothing has no root');
  const levels = [level];
  while (level.length > 1) {
    const below = level;
    level = [];
    for (let i = 0; i < below.length; i += 2) {
      const [left, right] = [below[i]!, below[i + 1]];
      level.push(right === undefined ? left : hash(concatBytes(NODE, left, right)));
    }
    levels.push(level);
  }
  return { root: rootOf(level[0]!, { count, bytes }, hash), count, levels };
}

/** Binds the number of parts (u32) and bytes (u64, both little-endian) into the root. */
function rootOf(top: Uint8Array, { count, bytes }: TreeSize, hash: typeof sha256): string {
  const sizes = new DataView(new ArrayBuffer(12));
  sizes.setUint32(0, count, true);
  sizes.setBigUint64(4, BigInt(bytes), true);
  return toHex(hash(concatBytes(ROOT, new Uint8Array(sizes.buffer), top)));
}

/** The neighbours of a part's ancestors, from the leaf up. */
export function merklePath({ levels, count }: MerkleTree, index: number): readonly Uint8Array[] {
  if (!Number.isSafeInteger(index) || index < 0 || index >= count) {
    throw new RangeError(`part ${index} of ${count}`);
  }
  return levels
    .map((level, height) => level[neighbour(Math.floor(index / 2 ** height))])
    .filter((hash) => hash !== undefined);
}

const neighbour = (position: number): number => position + (position % 2 === 0 ? 1 : -1);

/** Whether the node at each height below the top is joined with a neighbour, and from which side. */
function joins(index: number, count: number): readonly ('left' | 'right' | 'alone')[] {
  const sides: ('left' | 'right' | 'alone')[] = [];
  for (let at = index, width = count; width > 1; at >>>= 1, width = (width + 1) >>> 1) {
    const side = at % 2 === 0 ? 'right' : 'left';
    sides.push(neighbour(at) < width ? side : 'alone');
  }
  return sides;
}

/** How many hashes lead from a part to the top. */
export const pathLength = (index: number, count: number): number =>
  joins(index, count).filter((side) => side !== 'alone').length;

/** The root that a part and its path lead to. Its place is one of the count, and the path has the length that belongs there. */
export function rootFrom(
  part: Uint8Array,
  index: number,
  path: readonly Uint8Array[],
  extent: TreeSize,
  hash = sha256,
): string {
  let node = hash(concatBytes(LEAF, part));
  let used = 0;
  for (const side of joins(index, extent.count)) {
    if (side === 'alone') continue;
    const other = path[used++]!;
    node = hash(side === 'right' ? concatBytes(NODE, node, other) : concatBytes(NODE, other, node));
  }
  return rootOf(node, extent, hash);
}
