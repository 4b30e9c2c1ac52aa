/** The NSCP container of the Python reference: six bytes of header, then one compressed block; base64 around it all. */
import { deflate } from 'pako';
import { fromBase64, toBase64 } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/result.ts';

/** N S C P, version 1. */
const HEADER = [0x4e, 0x53, 0x43, 0x50, 1];
const ZLIB = 1;
const ZSTD = 2;
const CONTAINER_HEADER_BYTES = 6;

/** A container around a raw block: zlib, level 9, the bytes CPython makes. */
export function sealContainer(block: Uint8Array): { container: Uint8Array; payload: string } {
  const body = deflate(block, { level: 9 });
  const container = new Uint8Array(CONTAINER_HEADER_BYTES + body.length);
  container.set([...HEADER, ZLIB]);
  container.set(body, CONTAINER_HEADER_BYTES);
  return { container, payload: toBase64(container) };
}

export interface OpenContainer {
  /** The zlib stream inside, not yet inflated. */
  readonly stream: Uint8Array;
  readonly containerBytes: number;
  readonly codec: 'zlib';
}

/** The stream inside a payload. Its size is judged before base64 is decoded. */
export function openContainer(payload: string, maxBytes: number): Result<OpenContainer> {
  if (payload.length > 4 * Math.ceil(maxBytes / 3)) {
    return refuse(
      'too-large',
      'content',
      `payload of ${payload.length} characters, over the limit`,
    );
  }
  const container = fromBase64(payload);
  if (container === undefined) return refuse('bad-base64', 'content', 'not canonical base64');
  return readContainer(container, maxBytes);
}

/** The stream inside a container. */
export function readContainer(container: Uint8Array, maxBytes: number): Result<OpenContainer> {
  if (container.length > maxBytes) {
    return refuse(
      'too-large',
      'content',
      `container of ${container.length} bytes, over ${maxBytes}`,
    );
  }
  if (container.length < CONTAINER_HEADER_BYTES) {
    return refuse('truncated', 'container', `container of ${container.length} bytes has no header`);
  }
  if (HEADER.some((byte, i) => container[i] !== byte)) {
    return refuse('bad-container', 'container', 'not an NSCP container of version 1');
  }
  const codec = container[5]!;
  if (codec !== ZLIB) {
    const name = codec === ZSTD ? 'zstd' : `codec ${codec}`;
    return refuse('unsupported-codec', 'container', `${name} is not supported; send zlib`);
  }
  return ok({
    stream: container.subarray(CONTAINER_HEADER_BYTES),
    containerBytes: container.length,
    codec: 'zlib',
  });
}
