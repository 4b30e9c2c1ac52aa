/**
 * How a payload is cut and named: chunks of 44 KiB, the last one having what is left, so that length alone fixes them and nobody can cut the same
 * bytes another way; and the hash tree over them, by which one chunk can be checked alone, whoever served it.
 */
import { CHUNK_BYTES, MAX_CHUNKS } from '../../../kinds/chunk.ts';
import { sha256 } from '../../base/hash.ts';
import {
  HASH_BYTES,
  type MerkleTree,
  merklePath,
  merkleTree,
  pathLength,
  rootFrom,
} from '../../base/merkle.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import type { Digest } from '../../run/ids.ts';
import type { Sha256 } from '../event-crypto.ts';

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
export type ChunkTree = PayloadRoot & MerkleTree;

/** Hashes a payload. */
export function chunkTree(payload: Uint8Array, hash: Sha256 = sha256): ChunkTree {
  return { ...merkleTree(splitChunks(payload), hash), bytes: payload.length };
}

/** The neighbours of a chunk's ancestors, from the leaf up. */
export const chunkPath = (tree: ChunkTree, index: number): readonly Uint8Array[] =>
  merklePath(tree, index);

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
  const count = chunkCount(bytes);
  const needed = pathLength(index, count);
  if (path.length !== needed || path.some((each) => each.length !== HASH_BYTES)) {
    return refuse('wrong-path', 'path', `${path.length} hashes where ${needed} lead to the root`);
  }
  return rootFrom(data, index, path, { count, bytes }, hash) === root
    ? ok(chunk as VerifiedChunk)
    : refuse('wrong-root', 'root', `chunk ${index} is not of ${root}`);
}

/** Whether these bytes are that payload, whole. */
export const isPayload = (
  payload: Uint8Array,
  { root, bytes }: PayloadRoot,
  hash: Sha256 = sha256,
): boolean => payload.length === bytes && chunkTree(payload, hash).root === root;

const isCount = (value: number, most: number): boolean =>
  Number.isSafeInteger(value) && value >= 1 && value <= most;

/** Whether there can be a payload of that length with a chunk of that index. */
export const isPlace = (index: number, bytes: number): boolean =>
  isCount(bytes, CHUNK_BYTES * MAX_CHUNKS) && isCount(index + 1, Math.ceil(bytes / CHUNK_BYTES));

/** How many chunks a payload of that length has; it has at least one byte. */
export function chunkCount(bytes: number): number {
  if (!isPlace(0, bytes)) throw new RangeError(`a payload of ${bytes} bytes`);
  return Math.ceil(bytes / CHUNK_BYTES);
}

/** The only length chunk `index` of such a payload can have. */
export function chunkLength(index: number, bytes: number): number {
  if (!isPlace(index, bytes)) throw new RangeError(`chunk ${index} of ${bytes} bytes`);
  return Math.min(CHUNK_BYTES, bytes - index * CHUNK_BYTES);
}

/** The chunks in order: views, nothing is copied. */
export function splitChunks(payload: Uint8Array): readonly Uint8Array[] {
  return Array.from({ length: chunkCount(payload.length) }, (_, index) =>
    payload.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES),
  );
}
