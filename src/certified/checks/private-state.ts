/**
 * What a worker commits to and may have to show: all that it learned and did not send, and the vectors of its inner optimizer, after an inner phase.
 * The root is that of its chunks, so that whoever asks relays for the root gets the state or nothing.
 */
import { chunkTree, type PayloadRoot } from '../../network/chunks/payload.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import { formatShard, type Shard } from '../../run/field.ts';
import type { FeatureValues } from '../../run/spec/features.ts';
import type { Origin } from '../../worker/ports.ts';
import type { PrivateState } from '../../worker/strategy.ts';

/** Of any optimizer, and the count of the steps that they have seen. */
const MOST_VECTORS = 8;

/** The bytes, the same for the same state: how many vectors, their lengths (u32, little-endian), values in f64, then vectors in f32. */
export function encodePrivate({ delta, moments }: PrivateState): Uint8Array {
  const head = 4 * (1 + moments.length);
  const size = moments.reduce((sum, { byteLength }) => sum + byteLength, head + delta.byteLength);
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, moments.length, true);
  for (const [i, { length }] of moments.entries()) view.setUint32(4 * (i + 1), length, true);
  let at = head;
  for (const part of [delta, ...moments]) {
    bytes.set(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), at);
    at += part.byteLength;
  }
  return bytes;
}

/** The state in bytes that anybody may have made, for a model of so many parameters; undefined where they are none, or a value is not finite. */
export function readPrivate(bytes: Uint8Array, size: number): PrivateState | undefined {
  if (bytes.length < 4) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = view.getUint32(0, true);
  const head = 4 * (1 + count);
  if (count > MOST_VECTORS || bytes.length < head) return undefined;
  const lengths = Array.from({ length: count }, (_, i) => view.getUint32(4 * (i + 1), true));
  const whole = lengths.reduce((sum, length) => sum + 4 * length, head + 8 * size);
  if (bytes.length !== whole || lengths.some((length) => length > size)) return undefined;
  let at = head;
  const take = (length: number) => {
    at += length;
    return bytes.slice(at - length, at).buffer;
  };
  const delta = new Float64Array(take(8 * size));
  const moments = lengths.map((length) => new Float32Array(take(4 * length)));
  const isWhole = [delta, ...moments].every((part) => part.every(Number.isFinite));
  return isWhole ? { delta, moments } : undefined;
}

/** The most bytes of a state of a model of so many parameters. */
export const mostPrivateBytes = (size: number): number =>
  4 * (1 + MOST_VECTORS) + 8 * size + 4 * MOST_VECTORS * size;

/** What its bytes are asked for by. */
export function rootOf(bytes: Uint8Array, hash?: Sha256): PayloadRoot {
  const { root, bytes: length } = chunkTree(bytes, hash);
  return { root, bytes: length };
}

/** What a manifest says of it. */
export type Commitment = NonNullable<FeatureValues<'manifest'>['rerun']>;

/** The commitment to these bytes by a trainer that says where its numbers come from. */
export const commitmentTo = (
  bytes: Uint8Array,
  { shard, build }: Origin,
  hash?: Sha256,
): Commitment => ({ ...rootOf(bytes, hash), shard, build });

/** Of a trainer that says nothing: its bits are like nobody else's. */
export const unknownOrigin = (shard: Shard): Origin => ({
  shard: formatShard(shard),
  build: 'unknown',
});
