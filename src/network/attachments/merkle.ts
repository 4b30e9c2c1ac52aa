/** The hash tree over a payload's chunks, so that one chunk can be checked alone, whoever served it. */
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
