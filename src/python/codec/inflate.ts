/**
 * Inflates a zlib stream (RFC 1950) from a stranger: stops at a byte count fixed beforehand, checks the checksum, and wants
 * the stream to end with its last byte. Gzip, preset dictionaries and concatenated streams are refused.
 */
import { Inflate } from 'pako';

export interface Inflated {
  /** The first bytes of the output, never more than the limit. */
  readonly bytes: Uint8Array;
  /** `whole`: everything, and sound. `more`: the limit was reached and output remains. `broken`: not a sound stream. */
  readonly end: 'whole' | 'more' | 'broken';
  /** Bytes that were inflated before stopping; at most one above the limit. */
  readonly inflatedBytes: number;
}

/** Deflate spends two bits at least on at most 258 bytes. */
const MOST_PER_BYTE = 1032;

/** The output of `stream`, up to `limit` bytes. Nothing larger than the limit, or than the stream can hold, is allocated for it. */
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

/** Thrown through the inflater to stop it; never leaves this file. */
const FULL = Symbol('limit reached');

const isZlibHeader = (method: number, flags: number): boolean =>
  (method & 15) === 8 && method >>> 4 <= 7 && ((method << 8) | flags) % 31 === 0 && !(flags & 32);

/** Adler-32 (RFC 1950 section 8). Sums stay exact for 3800 bytes between reductions. */
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
