/**
 * Merkle trees over the chunks of a payload (shape of RFC 6962 section 2.1): each chunk can be verified alone. Leaves,
 * inner nodes and the root have different hash prefixes. The root also commits to the number of chunks and bytes.
 */
import { concatBytes, toHex, utf8 } from './bytes.ts';
import { sha256 } from './hash.ts';

/** All hashes of a tree. */
export interface MerkleTree {
  /** Lowercase hex. */
  readonly root: string;
  readonly count: number;
  /** Hashes of each level, from the leaves up. */
  readonly levels: readonly (readonly Uint8Array[])[];
}

/** Sizes that the root commits to: the number of leaves and the total bytes. */
export interface TreeSize {
  readonly count: number;
  readonly bytes: number;
}

/** Prefix hashed before each part. */
export const LEAF = utf8('nostrain:leaf:');
export const NODE = utf8('nostrain:node:');
const ROOT = utf8('nostrain:root:');
export const HASH_BYTES = 32;

/** Builds the tree over one or more parts. The iterator may reuse a part's buffer for the next one. */
export function merkleTree(parts: Iterable<Uint8Array>, hash = sha256): MerkleTree {
  const leaves: Uint8Array[] = [];
  let bytes = 0;
  for (const part of parts) {
    bytes += part.length;
    leaves.push(hash(concatBytes(LEAF, part)));
  }
  return treeOver(leaves, bytes, hash);
}

/** Builds the tree over one or more leaf hashes, each the SHA-256 of `LEAF` and a part. */
export function treeOver(leaves: readonly Uint8Array[], bytes: number, hash = sha256): MerkleTree {
  let level = leaves;
  const count = level.length;
  if (count === 0) throw new RangeError('a tree over nothing has no root');
  const levels = [level];
  while (level.length > 1) {
    const below = level;
    const above: Uint8Array[] = [];
    for (let i = 0; i < below.length; i += 2) {
      const [left, right] = [below[i]!, below[i + 1]];
      above.push(right === undefined ? left : hash(concatBytes(NODE, left, right)));
    }
    level = above;
    levels.push(level);
  }
  return { root: rootOf(level[0]!, { count, bytes }, hash), count, levels };
}

/** Returns the root: a hash of the top node, the number of parts (u32) and bytes (u64, both little-endian). */
function rootOf(top: Uint8Array, { count, bytes }: TreeSize, hash: typeof sha256): string {
  const sizes = new DataView(new ArrayBuffer(12));
  sizes.setUint32(0, count, true);
  sizes.setBigUint64(4, BigInt(bytes), true);
  return toHex(hash(concatBytes(ROOT, new Uint8Array(sizes.buffer), top)));
}

/** Returns the Merkle path of a part: the sibling hashes from the leaf up. */
export function merklePath({ levels, count }: MerkleTree, index: number): readonly Uint8Array[] {
  if (!Number.isSafeInteger(index) || index < 0 || index >= count) {
    throw new RangeError(`part ${index} of ${count}`);
  }
  return levels
    .map((level, height) => level[neighbour(Math.floor(index / 2 ** height))])
    .filter((hash) => hash !== undefined);
}

const neighbour = (position: number): number => position + (position % 2 === 0 ? 1 : -1);

/** For each level below the top: the side of the path's sibling, or `alone` if it has none. */
function joins(index: number, count: number): readonly ('left' | 'right' | 'alone')[] {
  const sides: ('left' | 'right' | 'alone')[] = [];
  for (let at = index, width = count; width > 1; at >>>= 1, width = (width + 1) >>> 1) {
    const side = at % 2 === 0 ? 'right' : 'left';
    sides.push(neighbour(at) < width ? side : 'alone');
  }
  return sides;
}

/** Returns the number of hashes in a part's Merkle path. */
export const pathLength = (index: number, count: number): number =>
  joins(index, count).filter((side) => side !== 'alone').length;

/** Computes the root from a part and its path. The caller has checked `index < count` and the path's length. */
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
