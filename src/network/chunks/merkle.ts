/**
 * The hash tree over a payload's chunks, so that one chunk can be checked alone. Its shape is that of RFC 6962 section 2.1:
 * neighbours are joined level by level and the last node of an odd level moves up as it is, never joined with itself.
 * Leaves, nodes and the root are hashed under different prefixes; the root also binds how many chunks and bytes there are.
 */
import { concatBytes, toHex, utf8 } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import type { Digest } from '../../run/ids.ts';
import type { Sha256 } from '../event-crypto.ts';
import { chunkCount, chunkLength, isPlace, splitChunks } from './split.ts';

/** Names a payload: whoever has the bytes of this root has that payload. */
export interface PayloadRoot {
  readonly root: Digest;
  /** Of the whole payload; the number of chunks follows. */
  readonly bytes: number;
}

/** A chunk and its place, as somebody claims it. */
export interface Chunk extends PayloadRoot {
  readonly index: number;
  readonly data: Uint8Array;
  /** Hashes from the leaf to the top, 32 bytes each. */
  readonly path: readonly Uint8Array[];
}

declare const verified: unique symbol;

/** A chunk whose path leads to its root; only `verifyChunk` makes one. */
export interface VerifiedChunk extends Chunk {
  readonly [verified]: true;
}

/** All hashes of one payload. */
export interface ChunkTree extends PayloadRoot {
  readonly count: number;
  /** Leaves first, the top last. */
  readonly levels: readonly (readonly Uint8Array[])[];
}

const LEAF = utf8('nostrain:leaf:');
const NODE = utf8('nostrain:node:');
const ROOT = utf8('nostrain:root:');
const HASH_BYTES = 32;

/** Hashes a payload. */
export function chunkTree(payload: Uint8Array, hash: Sha256 = sha256): ChunkTree {
  const chunks = splitChunks(payload);
  let level = chunks.map((chunk) => hash(concatBytes(LEAF, chunk)));
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
  const bytes = payload.length;
  return { root: rootOf(level[0]!, bytes, hash), bytes, count: chunks.length, levels };
}

/** Binds the number of chunks (u32) and bytes (u64, both little-endian) into the name of the payload. */
function rootOf(top: Uint8Array, bytes: number, hash: Sha256): Digest {
  const sizes = new DataView(new ArrayBuffer(12));
  sizes.setUint32(0, chunkCount(bytes), true);
  sizes.setBigUint64(4, BigInt(bytes), true);
  return toHex(hash(concatBytes(ROOT, new Uint8Array(sizes.buffer), top)));
}

/** The neighbours of a chunk's ancestors, from the leaf up. */
export function chunkPath({ levels, count }: ChunkTree, index: number): readonly Uint8Array[] {
  if (!Number.isSafeInteger(index) || index < 0 || index >= count) {
    throw new RangeError(`chunk ${index} of ${count}`);
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

/** The same chunk when its path leads to its root. Lengths are judged before anything is hashed. */
export function verifyChunk(chunk: Chunk, hash: Sha256 = sha256): Result<VerifiedChunk> {
  const { root, bytes, index, data, path } = chunk;
  if (!isPlace(index, bytes)) {
    return refuse('wrong-index', 'index', `no chunk ${index} in a payload of ${bytes} bytes`);
  }
  const length = chunkLength(index, bytes);
  if (data.length !== length) {
    return refuse('wrong-length', 'data', `${data.length} bytes where ${length} belong`);
  }
  const sides = joins(index, chunkCount(bytes));
  const needed = sides.filter((side) => side !== 'alone').length;
  if (path.length !== needed || path.some((each) => each.length !== HASH_BYTES)) {
    return refuse('wrong-path', 'path', `${path.length} hashes where ${needed} lead to the root`);
  }
  let node = hash(concatBytes(LEAF, data));
  let used = 0;
  for (const side of sides) {
    if (side === 'alone') continue;
    const other = path[used++]!;
    node = hash(side === 'right' ? concatBytes(NODE, node, other) : concatBytes(NODE, other, node));
  }
  return rootOf(node, bytes, hash) === root
    ? ok(chunk as VerifiedChunk)
    : refuse('wrong-root', 'root', `chunk ${index} is not of ${root}`);
}

/** Whether these bytes are that payload, whole. */
export const isPayload = (
  payload: Uint8Array,
  { root, bytes }: PayloadRoot,
  hash: Sha256 = sha256,
): boolean => payload.length === bytes && chunkTree(payload, hash).root === root;
