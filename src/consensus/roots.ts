/**
 * The Merkle roots of a run: the model root over parameters and outer momentum, whose leaves are the chunks in which a
 * checkpoint travels, and the run root over the digests of its outcomes, one leaf per round.
 */
import { concatBytes, fromHex, isHex32, toHex, utf8 } from '../base/bytes.ts';
import { bytes32, sha256, sha256Hex } from '../base/hash.ts';
import { HASH_BYTES, merklePath, merkleTree, pathLength, rootFrom } from '../base/merkle.ts';
import type { Digest } from '../run/ids.ts';
import { bytesOfVector, type Layout, type Params, type Vector } from '../tensor/params.ts';

/** Parameters and outer momentum, the content of a checkpoint. */
export interface ModelState {
  readonly params: Params;
  /** Outer momentum, in the storage type of the parameters. */
  readonly momentum: Vector;
}

/** The chunk size of kind 7811. */
const CHUNK_BYTES = 45_056;

const stateBytesOf = ({ params, momentum }: ModelState): number =>
  params.values.byteLength + momentum.byteLength;

/** Root of the canonical bytes: parameters by layout, then momentum, little-endian in their storage type. */
export const modelRoot = (state: ModelState, hash = sha256): Digest =>
  merkleTree(stateChunks(state), hash).root;

/** The model root of a tiered run: SHA-256 of `nostrain/rings/1` and the roots of the slices. */
export const rootOfSlices = (sliceRoots: readonly Digest[]): Digest =>
  sha256Hex(concatBytes(utf8('nostrain/rings/1'), ...sliceRoots.map(bytes32)));

/** Returns the canonical bytes of a state, over which `modelRoot` is computed. */
export function stateBytes(state: ModelState): Uint8Array {
  const bytes = new Uint8Array(stateBytesOf(state));
  let at = 0;
  for (const chunk of stateChunks(state)) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

/** The canonical bytes chunk by chunk; each chunk reuses the buffer of the one before. */
function* stateChunks({ params, momentum }: ModelState): Generator<Uint8Array> {
  const chunk = new Uint8Array(CHUNK_BYTES);
  let filled = 0;
  for (const bytes of [params.values, momentum].map(bytesOfVector)) {
    for (let from = 0; from < bytes.length; ) {
      const part = bytes.subarray(from, from + CHUNK_BYTES - filled);
      chunk.set(part, filled);
      from += part.length;
      filled = (filled + part.length) % CHUNK_BYTES;
      if (filled === 0) yield chunk;
    }
  }
  if (filled > 0) yield chunk.subarray(0, filled);
}

/** Reads canonical bytes back as f32, the storage type of all trained models. Throws a RangeError on a wrong length. */
export function readState(bytes: Uint8Array, layout: Layout): ModelState {
  const { size } = layout;
  if (bytes.length !== 8 * size) {
    throw new RangeError(`${bytes.length} bytes for ${size} parameters and their momentum`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const read = (from: number) =>
    Float32Array.from({ length: size }, (_, i) => view.getFloat32((from + i) * 4, true));
  return { params: { layout, values: read(0) }, momentum: read(size) };
}

/** Returns the Merkle root of any bytes, to compare with an expected root before parsing them. */
export function bytesRoot(bytes: Uint8Array, hash = sha256): Digest {
  const count = Math.ceil(bytes.length / CHUNK_BYTES);
  const chunks = Array.from({ length: count }, (_, i) =>
    bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES),
  );
  return merkleTree(chunks, hash).root;
}

/** Merkle proof that `digest` is the outcome digest of `round` in a run of `rounds` rounds. */
export interface RoundProof {
  readonly round: number;
  readonly rounds: number;
  readonly digest: Digest;
  /** Sibling hashes, from the leaf to the root. */
  readonly path: readonly Digest[];
}

/** Returns the Merkle root over the outcome digests of all rounds, from round 0. */
export const runRoot = (digests: readonly Digest[]): Digest => treeOf(digests).root;

/**
 * Proves that the outcome of one round is part of a run: returns the path of hashes up to the run root.
 *
 * @example
 * ```ts
 * import { isRoundOf, proveRound, runRoot } from 'nostrain/certified';
 *
 * const digests = ['a', 'b', 'c'].map((digit) => digit.repeat(64));
 * const proof = proveRound(digests, 1);
 * isRoundOf(runRoot(digests), proof); // => true
 * isRoundOf(runRoot(digests.slice(1)), proof); // => false
 * ```
 */
export function proveRound(digests: readonly Digest[], round: number): RoundProof {
  const path = merklePath(treeOf(digests), round).map(toHex);
  return { round, rounds: digests.length, digest: digests[round]!, path };
}

/**
 * Reports whether the proof leads to this run root; false for a malformed proof.
 *
 * @example
 * ```ts
 * import { isRoundOf, runRoot } from 'nostrain/certified';
 *
 * const digest = 'a'.repeat(64);
 * const alone = { round: 0, rounds: 1, digest, path: [] };
 * isRoundOf(runRoot([digest]), alone); // => true
 * isRoundOf(runRoot([digest]), { ...alone, rounds: 2 }); // => false
 * ```
 */
export function isRoundOf(root: Digest, { round, rounds, digest, path }: RoundProof): boolean {
  const isRoundIndex = Number.isSafeInteger(rounds) && Number.isSafeInteger(round) && round >= 0;
  if (!isRoundIndex || round >= rounds || !isHex32(digest) || !path.every(isHex32)) return false;
  if (path.length !== pathLength(round, rounds)) return false;
  const extent = { count: rounds, bytes: rounds * HASH_BYTES };
  return (
    rootFrom(
      bytes32(digest),
      round,
      path.map((hash) => fromHex(hash)!),
      extent,
    ) === root
  );
}

const treeOf = (digests: readonly Digest[]) => merkleTree(digests.map(bytes32));
