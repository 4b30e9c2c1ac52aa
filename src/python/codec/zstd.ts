/**
 * Zstandard frames (RFC 8878) from strangers: one frame that says how much it holds, judged before anything is allocated for
 * it. The decoder itself is brought by the platform, and must be sound on hostile frames: small ones can keep a careless one
 * busy for hours.
 */
import { ok, type Result, refuse } from '../../base/result.ts';

/** A zstd codec, as `openZstd` of `nostrain/python/node` gives it. */
export interface Zstd {
  /** One frame with its content size, level 9. */
  compress(block: Uint8Array): Uint8Array;
  /** What one whole frame holds. Throws when the frame is not sound. */
  expand(frame: Uint8Array): Uint8Array;
}

const MAGIC = 0xfd2fb528;
const SKIPPED_TYPE = 3;
const RLE = 1;
const MAX_BLOCK_BYTES = 128 * 1024;

/** The content of a frame, when it is at most `limit` bytes. */
export function expandZstd(frame: Uint8Array, limit: number, zstd: Zstd): Result<Uint8Array> {
  const header = readFrameHeader(frame);
  if (header === undefined) {
    return refuse('bad-zstd', 'container', 'not a zstd frame that says its size');
  }
  const { contentBytes, windowBytes, blocksAt } = header;
  if (contentBytes > limit) {
    return refuse(
      'too-large',
      'container',
      `${contentBytes} bytes inside, at most ${limit} are read`,
    );
  }
  const room = roomOfBlocks(frame, blocksAt, header.hasChecksum);
  if (room === undefined || room < contentBytes || windowBytes > 2 * contentBytes + 1024) {
    return refuse('bad-zstd', 'container', 'the zstd frame cannot hold what it says');
  }
  try {
    const content = zstd.expand(frame);
    if (content.length === contentBytes) return ok(content);
  } catch {
    // what the decoder says of it is of no use to anybody
  }
  return refuse('bad-zstd', 'container', 'the zstd frame is not sound');
}

interface FrameHeader {
  readonly contentBytes: number;
  readonly windowBytes: number;
  readonly blocksAt: number;
  readonly hasChecksum: boolean;
}

/** The header of a frame without dictionary that says its size; undefined for every other. */
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

/** The most that blocks up to the very end of the frame can hold, or undefined when they do not end there. */
function roomOfBlocks(frame: Uint8Array, start: number, hasChecksum: boolean): number | undefined {
  const end = frame.length - (hasChecksum ? 4 : 0);
  let room = 0;
  for (let at = start; at + 3 <= end; ) {
    const header = frame[at]! | (frame[at + 1]! << 8) | (frame[at + 2]! << 16);
    const type = (header >>> 1) & 3;
    const size = header >>> 3;
    if (type === SKIPPED_TYPE || size > MAX_BLOCK_BYTES) return undefined;
    room += type === 2 ? MAX_BLOCK_BYTES : size;
    at += 3 + (type === RLE ? 1 : size);
    if ((header & 1) === 1) return at === end ? room : undefined;
  }
  return undefined;
}
