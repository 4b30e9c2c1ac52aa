/** The NSCP container of the Python reference: six bytes of header, then one compressed block; base64 around it all. */
import { deflate } from 'pako';
import { fromBase64, toBase64 } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import { type Inflated, inflateAtMost } from './inflate.ts';
import { expandZstd, type Zstd } from './zstd.ts';

export type BlockCodec = 'zlib' | 'zstd';

/** N S C P, version 1. */
const HEADER = [0x4e, 0x53, 0x43, 0x50, 1];
const ZLIB = 1;
const ZSTD = 2;
const CONTAINER_HEADER_BYTES = 6;

/** A container around a raw block: zlib, level 9, the bytes CPython makes; or zstd, where it is given. */
export function sealContainer(
  block: Uint8Array,
  zstd?: Zstd,
): { container: Uint8Array; payload: string } {
  const body = zstd === undefined ? deflate(block, { level: 9 }) : zstd.compress(block);
  const container = new Uint8Array(CONTAINER_HEADER_BYTES + body.length);
  container.set([...HEADER, zstd === undefined ? ZLIB : ZSTD]);
  container.set(body, CONTAINER_HEADER_BYTES);
  return { container, payload: toBase64(container) };
}

export interface OpenContainer {
  readonly containerBytes: number;
  readonly codec: BlockCodec;
  /** The first bytes of the block inside. */
  atMost(limit: number): Inflated;
}

export interface ContainerLimits {
  readonly maxContainerBytes: number;
  /** Reads zstd; without it such containers are refused. */
  readonly zstd?: Zstd | undefined;
}

/** What is inside a payload. Its size is judged before base64 is decoded. */
export function openContainer(
  payload: string,
  limits: ContainerLimits,
  maxBlockBytes: number,
): Result<OpenContainer> {
  if (payload.length > 4 * Math.ceil(limits.maxContainerBytes / 3)) {
    return refuse(
      'too-large',
      'content',
      `payload of ${payload.length} characters, over the limit`,
    );
  }
  const container = fromBase64(payload);
  if (container === undefined) return refuse('bad-base64', 'content', 'not canonical base64');
  return readContainer(container, limits, maxBlockBytes);
}

/** What is inside a container. zlib streams are inflated as far as they are asked for, zstd frames at once. */
export function readContainer(
  container: Uint8Array,
  { maxContainerBytes, zstd }: ContainerLimits,
  maxBlockBytes: number,
): Result<OpenContainer> {
  const containerBytes = container.length;
  if (containerBytes > maxContainerBytes) {
    const message = `container of ${containerBytes} bytes, over ${maxContainerBytes}`;
    return refuse('too-large', 'content', message);
  }
  if (containerBytes < CONTAINER_HEADER_BYTES) {
    return refuse('truncated', 'container', `container of ${containerBytes} bytes has no header`);
  }
  if (HEADER.some((byte, i) => container[i] !== byte)) {
    return refuse('bad-container', 'container', 'not an NSCP container of version 1');
  }
  const stream = container.subarray(CONTAINER_HEADER_BYTES);
  const codec = container[5]!;
  if (codec === ZLIB) {
    return ok({ containerBytes, codec: 'zlib', atMost: (limit) => inflateAtMost(stream, limit) });
  }
  if (codec !== ZSTD || zstd === undefined) {
    const name = codec === ZSTD ? 'zstd' : `codec ${codec}`;
    return refuse('unsupported-codec', 'container', `${name} is not supported; send zlib`);
  }
  const block = expandZstd(stream, maxBlockBytes, zstd);
  if (!block.ok) return block;
  return ok({ containerBytes, codec: 'zstd', atMost: (limit) => firstOf(block.value, limit) });
}

const firstOf = (block: Uint8Array, limit: number): Inflated => ({
  bytes: block.subarray(0, limit),
  end: block.length > limit ? 'more' : 'whole',
  inflatedBytes: block.length,
});
