/**
 * The model root: what a committee certifies of parameters and outer momentum. It is the root of the chunks in which the same bytes
 * travel as a checkpoint, so whoever has the root can take each chunk from anybody. Their layout is that of the run's model.
 */
import { sha256 } from '../base/hash.ts';
import { merkleTree } from '../base/merkle.ts';
import type { Digest } from '../run/ids.ts';
import type { Layout, Params, Vector } from '../tensor/params.ts';

/** The part of the state that is numbers. */
export interface ModelState {
  readonly params: Params;
  /** Of the storage type of the parameters. */
  readonly momentum: Vector;
}

/** As long as the chunks of any other payload (kind 7811). */
const CHUNK_BYTES = 45_056;

/** Length of the canonical bytes. */
const stateBytesOf = ({ params, momentum }: ModelState): number =>
  params.values.byteLength + momentum.byteLength;

/** Root of the canonical bytes: parameters by layout, then momentum, each value little-endian in its storage type. */
export const modelRoot = (state: ModelState, hash = sha256): Digest =>
  merkleTree(stateChunks(state), hash).root;

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

/** The canonical bytes in stretches of one chunk; each is overwritten by the next one. */
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

/** Parameters and momentum of canonical bytes in f32, as all that we train is stored. Throws on another length. */
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

/** Root of these bytes, whatever they are: what to compare before they are read. */
export function bytesRoot(bytes: Uint8Array, hash = sha256): Digest {
  const count = Math.ceil(bytes.length / CHUNK_BYTES);
  const chunks = Array.from({ length: count }, (_, i) =>
    bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES),
  );
  return merkleTree(chunks, hash).root;
}
