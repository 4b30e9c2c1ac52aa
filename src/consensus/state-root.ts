/**
 * The model root: the Merkle root of parameters and outer momentum that a committee certifies. Its leaves are the chunks in
 * which a checkpoint travels, so a newcomer with the root can fetch each chunk from anybody and verify it alone.
 */
import { concatBytes, utf8 } from '../base/bytes.ts';
import { sha256, sha256Hex } from '../base/hash.ts';
import { merkleTree } from '../base/merkle.ts';
import { bytes32 } from '../base/tagged-hash.ts';
import type { Digest } from '../run/ids.ts';
import type { Layout, Params, Vector } from '../tensor/params.ts';

/** Parameters and outer momentum. */
export interface ModelState {
  readonly params: Params;
  /** Of the storage type of the parameters. */
  readonly momentum: Vector;
}

/** The chunk size of kind 7811. */
const CHUNK_BYTES = 45_056;

/** Length of the canonical bytes. */
const stateBytesOf = ({ params, momentum }: ModelState): number =>
  params.values.byteLength + momentum.byteLength;

/** Root of the canonical bytes: parameters by layout, then momentum, each value little-endian in its storage type. */
export const modelRoot = (state: ModelState, hash = sha256): Digest =>
  merkleTree(stateChunks(state), hash).root;

/**
 * The model root in a run with tiers of width, over the roots of the rings: SHA-256 of `nostrain/rings/1` and these. Each ring travels under
 * its own root.
 */
export const rootOfRings = (rings: readonly Digest[]): Digest =>
  sha256Hex(concatBytes(utf8('nostrain/rings/1'), ...rings.map(bytes32)));

/** The canonical bytes. */
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
function* stateChunks(state: ModelState): Generator<Uint8Array> {
  const { params, momentum } = state;
  const [total, size, width] = [
    stateBytesOf(state),
    params.values.length,
    params.values.BYTES_PER_ELEMENT,
  ];
  const chunk = new Uint8Array(CHUNK_BYTES);
  const view = new DataView(chunk.buffer);
  const perChunk = CHUNK_BYTES / width;
  for (let from = 0; from * width < total; from += perChunk) {
    const to = Math.min(from + perChunk, total / width);
    for (let i = from; i < to; i++) {
      const value = i < size ? params.values[i]! : momentum[i - size]!;
      if (width === 4) view.setFloat32((i - from) * 4, value, true);
      else view.setFloat64((i - from) * 8, value, true);
    }
    yield chunk.subarray(0, (to - from) * width);
  }
}

/** Reads canonical bytes back as f32, the storage type of everything we train. Throws on another length. */
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

/** Root of any bytes, to compare with an expected root before they are parsed. */
export function bytesRoot(bytes: Uint8Array, hash = sha256): Digest {
  const count = Math.ceil(bytes.length / CHUNK_BYTES);
  const chunks = Array.from({ length: count }, (_, i) =>
    bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES),
  );
  return merkleTree(chunks, hash).root;
}
