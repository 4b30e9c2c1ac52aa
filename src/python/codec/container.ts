/**
 * Reads and writes the NSCP container of the Python reference: six bytes of header, then one block compressed with zlib
 * or zstd, in base64. Untrusted blocks are bounded before memory is allocated: a zlib stream is inflated up to a byte
 * limit and its checksum verified, a zstd frame (RFC 8878) must state its size.
 */
import { deflate, Inflate } from 'pako';
import { fromBase64, toBase64 } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';

export type BlockCodec = 'zlib' | 'zstd';

/** Magic number "NSCP" and version 1. */
const HEADER = [0x4e, 0x53, 0x43, 0x50, 1];
const ZLIB = 1;
const ZSTD = 2;
const CONTAINER_HEADER_BYTES = 6;

/** Compresses a block into a container: with zlib level 9, byte for byte as CPython does; or with zstd, if given. */
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

/** A container whose block can be read. */
export interface OpenContainer {
  readonly containerBytes: number;
  readonly codec: BlockCodec;
  /** Returns the first bytes of the block. */
  atMost(limit: number): Inflated;
}

export interface ContainerLimits {
  readonly maxContainerBytes: number;
  /** The zstd codec; without it zstd containers are refused. */
  readonly zstd?: Zstd | undefined;
}

/** Opens a container, in base64 or bytes. A zlib stream is inflated on demand, a zstd frame at once. */
export function openContainer(
  payload: string | Uint8Array,
  { maxContainerBytes, zstd }: ContainerLimits,
  maxBlockBytes: number,
): Result<OpenContainer> {
  const isText = typeof payload === 'string';
  if (isText && payload.length > 4 * Math.ceil(maxContainerBytes / 3)) {
    const message = `payload of ${payload.length} characters, over the limit`;
    return refuse('too-large', 'content', message);
  }
  const container = isText ? fromBase64(payload) : payload;
  if (container === undefined) return refuse('bad-base64', 'content', 'not canonical base64');
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
  const expanded = expandZstd(stream, maxBlockBytes, zstd);
  if (!expanded.ok) return expanded;
  const block = expanded.value;
  const atMost = (limit: number): Inflated => ({
    bytes: block.subarray(0, limit),
    end: block.length > limit ? 'more' : 'whole',
    inflatedBytes: block.length,
  });
  return ok({ containerBytes, codec: 'zstd', atMost });
}

/** The result of inflating a stream up to a limit. */
export interface Inflated {
  /** The first bytes of the output, at most the limit. */
  readonly bytes: Uint8Array;
  /** `whole`: complete and valid. `more`: the limit was reached and output remains. `broken`: not a valid stream. */
  readonly end: 'whole' | 'more' | 'broken';
  /** Number of bytes inflated before stopping; at most one above the limit. */
  readonly inflatedBytes: number;
}

/** Maximum output bytes per input byte of Deflate, which spends at least two bits on at most 258 bytes. */
const MOST_PER_BYTE = 1032;

/** Inflates a stream up to `limit` bytes; allocates at most the limit, and at most what the stream can expand to. */
export function inflateAtMost(stream: Uint8Array, limit: number): Inflated {
  const broken: Inflated = { bytes: new Uint8Array(0), end: 'broken', inflatedBytes: 0 };
  if (stream.length < 8 || !isZlibHeader(stream[0]!, stream[1]!)) return broken;
  const output: { bytes?: Uint8Array } = {};
  const most = Math.min(limit, MOST_PER_BYTE * stream.length);
  const inflater = new Inflate({ raw: true, chunkSize: most + 1 });
  inflater.onData = (chunk) => {
    output.bytes = chunk instanceof Uint8Array ? chunk : new Uint8Array(chunk);
    if (output.bytes.length > limit) throw FULL;
  };
  let ended = false;
  inflater.onEnd = () => {
    ended = true;
  };
  const last = stream.length - 5;
  try {
    if (!inflater.push(stream.subarray(2, last)) || ended) return broken;
    if (!inflater.push(stream.subarray(last, last + 1)) || !ended) return broken;
  } catch (error) {
    if (error !== FULL) throw error;
    return { bytes: output.bytes!.subarray(0, limit), end: 'more', inflatedBytes: limit + 1 };
  }
  const bytes = output.bytes ?? new Uint8Array(0);
  const checksum = new DataView(stream.buffer, stream.byteOffset + last + 1, 4).getUint32(0);
  return {
    bytes,
    end: adler32(bytes) === checksum ? 'whole' : 'broken',
    inflatedBytes: bytes.length,
  };
}

/** Thrown through the inflater to stop it; caught in this file. */
const FULL = Symbol('limit reached');

const isZlibHeader = (method: number, flags: number): boolean =>
  (method & 15) === 8 && method >>> 4 <= 7 && ((method << 8) | flags) % 31 === 0 && !(flags & 32);

/** Computes Adler-32 (RFC 1950 section 8). Sums stay exact for 3800 bytes between reductions. */
function adler32(bytes: Uint8Array): number {
  let low = 1;
  let high = 0;
  for (let from = 0; from < bytes.length; from += 3800) {
    const to = Math.min(bytes.length, from + 3800);
    for (let i = from; i < to; i++) {
      low += bytes[i]!;
      high += low;
    }
    low %= 65521;
    high %= 65521;
  }
  return high * 65536 + low;
}

/** A zstd codec, as `openZstd` of `nostrain/python/node` returns it. */
export interface Zstd {
  /** Compresses a block into one frame that states its content size, at level 9. */
  compress(block: Uint8Array): Uint8Array;
  /** Decompresses one complete frame. Throws if the frame is invalid. */
  expand(frame: Uint8Array): Uint8Array;
}

/** Magic number of a zstd frame, and types and maximum size of its blocks (RFC 8878). */
const MAGIC = 0xfd2fb528;
const SKIPPED_TYPE = 3;
const RLE = 1;
const MAX_BLOCK_BYTES = 128 * 1024;

/** Decompresses a frame if its content is at most `limit` bytes. */
export function expandZstd(frame: Uint8Array, limit: number, zstd: Zstd): Result<Uint8Array> {
  const header = readFrameHeader(frame);
  if (header === undefined) {
    return refuse('bad-zstd', 'container', 'not a zstd frame that states its size');
  }
  const { contentBytes, windowBytes, blocksAt } = header;
  if (contentBytes > limit) {
    const message = `content of ${contentBytes} bytes, over the limit of ${limit}`;
    return refuse('too-large', 'container', message);
  }
  const capacity = maxContentOfBlocks(frame, blocksAt, header.hasChecksum);
  if (capacity === undefined || capacity < contentBytes || windowBytes > 2 * contentBytes + 1024) {
    return refuse('bad-zstd', 'container', 'the zstd frame is too short for the size it states');
  }
  try {
    const content = zstd.expand(frame);
    if (content.length === contentBytes) return ok(content);
  } catch {
    // the decoder's own message does not help
  }
  return refuse('bad-zstd', 'container', 'the zstd frame is invalid');
}

interface FrameHeader {
  readonly contentBytes: number;
  readonly windowBytes: number;
  readonly blocksAt: number;
  readonly hasChecksum: boolean;
}

/** Reads the header of a frame without dictionary that states its size; undefined for all other frames. */
function readFrameHeader(frame: Uint8Array): FrameHeader | undefined {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.length);
  if (frame.length < 6 || view.getUint32(0, true) !== MAGIC) return undefined;
  const flags = frame[4]!;
  const isSingleSegment = (flags & 0x20) !== 0;
  const usesReservedOrDictionary = (flags & 0x0b) !== 0;
  const sizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][flags >>> 6]!;
  const sizeAt = isSingleSegment ? 5 : 6;
  const blocksAt = sizeAt + sizeBytes;
  if (usesReservedOrDictionary || sizeBytes === 0 || blocksAt > frame.length) return undefined;
  const contentBytes = readSize(view, sizeAt, sizeBytes);
  const window = frame[5]!;
  const base = 2 ** (10 + (window >>> 3));
  const windowBytes = isSingleSegment ? contentBytes : base + (base / 8) * (window & 7);
  return { contentBytes, windowBytes, blocksAt, hasChecksum: (flags & 4) !== 0 };
}

function readSize(view: DataView, at: number, bytes: number): number {
  if (bytes === 1) return view.getUint8(at);
  if (bytes === 2) return view.getUint16(at, true) + 256;
  if (bytes === 4) return view.getUint32(at, true);
  return view.getUint32(at, true) + 2 ** 32 * view.getUint32(at + 4, true);
}

/** Returns the maximum content of the blocks, or undefined if they do not end exactly at the end of the frame. */
function maxContentOfBlocks(
  frame: Uint8Array,
  start: number,
  hasChecksum: boolean,
): number | undefined {
  const end = frame.length - (hasChecksum ? 4 : 0);
  let capacity = 0;
  for (let at = start; at + 3 <= end; ) {
    const header = frame[at]! | (frame[at + 1]! << 8) | (frame[at + 2]! << 16);
    const type = (header >>> 1) & 3;
    const size = header >>> 3;
    if (type === SKIPPED_TYPE || size > MAX_BLOCK_BYTES) return undefined;
    capacity += type === 2 ? MAX_BLOCK_BYTES : size;
    at += 3 + (type === RLE ? 1 : size);
    if ((header & 1) === 1) return at === end ? capacity : undefined;
  }
  return undefined;
}
