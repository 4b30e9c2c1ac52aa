/** Every way to pack a payload, and how many bytes each takes. */
import { ConfigError } from '../../base/errors.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { PAYLOAD_HEADER_BYTES } from './payload-header.ts';
import { codedBytesAtMost } from './range-coded.ts';
import { riceBytesAtMost } from './rice.ts';
import { int4 } from './values/int4.ts';
import { int8 } from './values/int8.ts';
import { q2 } from './values/q2.ts';
import { sign } from './values/sign.ts';
import { ternary } from './values/ternary.ts';
import type { ValueCode } from './values/value-code.ts';

/** Packs each chunk by itself. */
export interface ChunkCodec {
  /** The number in the header. */
  readonly code: number;
  readonly values: ValueCode;
  /** `all`: every value of a chunk, without indices. `largest`: the largest few, with their indices. */
  readonly sends: 'all' | 'largest';
}

/** Packs all chunks as one stream, into as many bytes as there are. */
export interface StreamCodec {
  readonly code: number;
  readonly sends: 'stream';
  /** What the values of a chunk are divided by: the root of their size, or their size, so that each chunk loses the same share. */
  readonly scales: 'root' | 'size';
  /** Whether chunks are turned first, and levels as long as makes up for the values that round to 0. */
  readonly isTurned: boolean;
}

/** By name; the numbers are part of the format. nostrain 0.1.0 used 5, 17, 19 and 33 too: they stay free. */
export const codecs = {
  int8: { code: 1, values: int8, sends: 'all' },
  int4: { code: 2, values: int4, sends: 'all' },
  q2: { code: 3, values: q2, sends: 'all' },
  ternary: { code: 4, values: ternary, sends: 'all' },
  'topk-sign': { code: 21, values: sign, sends: 'largest' },
  scaled: { code: 34, sends: 'stream', scales: 'root', isTurned: false },
  rotated: { code: 35, sends: 'stream', scales: 'size', isTurned: true },
} as const satisfies Record<string, ChunkCodec | StreamCodec>;

export type CodecName = keyof typeof codecs;

/** A codec and, where it sends the largest values only, how many of each chunk of 4096; else 0. */
export interface Packing {
  readonly codec: CodecName;
  readonly kept: number;
  /** Of a whole payload, for writers whose codec fills what it is given. */
  readonly maxBytes?: number;
}

/** Codecs that pack all chunks as one stream, and fill what they are given. */
export type StreamCodecName = {
  [Name in CodecName]: (typeof codecs)[Name]['sends'] extends 'stream' ? Name : never;
}[CodecName];
/** Codecs that pack chunk by chunk. */
export type ChunkPacking = Packing & { readonly codec: Exclude<CodecName, StreamCodecName> };

export const isChunkPacking = (packing: Packing): packing is ChunkPacking =>
  codecs[packing.codec].sends !== 'stream';

/** Dense codecs keep 0, which stands for all; the others 1 to 4095. */
const isPacking = ({ codec, kept }: Packing): boolean =>
  codecs[codec].sends !== 'largest'
    ? kept === 0
    : Number.isInteger(kept) && kept >= 1 && kept < CHUNK_LENGTH;

/** The packing that a header's numbers name, if any. */
export function packingOf(code: number, kept: number): Packing | undefined {
  for (const codec of Object.keys(codecs) as CodecName[]) {
    if (codecs[codec].code === code && isPacking({ codec, kept })) return { codec, kept };
  }
  return undefined;
}

/** How many values of a chunk of n are sent: its share of `kept`, rounded half up, at least one. */
export const keptOf = (kept: number, n: number): number =>
  Math.max(1, Math.floor((2 * kept * n + CHUNK_LENGTH) / (2 * CHUNK_LENGTH)));

/** Bytes of one chunk of n values: exactly for a dense codec, at most for the others. */
export function chunkBytesAtMost({ codec, kept }: ChunkPacking, n: number): number {
  const { values, sends } = codecs[codec];
  if (sends === 'all') return values.bytes(n);
  const k = keptOf(kept, n);
  return values.bytes(k) + riceBytesAtMost(n, k);
}

/** Bytes of a payload of this many chunks, all of them whole: exactly or at most, as above. */
export const payloadBytesAtMost = (packing: Packing, chunks: number): number =>
  isChunkPacking(packing)
    ? PAYLOAD_HEADER_BYTES + chunks * chunkBytesAtMost(packing, CHUNK_LENGTH)
    : (packing.maxBytes ?? PAYLOAD_HEADER_BYTES + chunks + codedBytesAtMost(chunks * CHUNK_LENGTH));

/** Throws unless the packing is one. */
export function assertPacking(packing: Packing): void {
  if (isPacking(packing)) return;
  const { codec, kept } = packing;
  throw new ConfigError('codec/packing', `${codec} cannot keep ${kept} values of a chunk`, {
    hint: 'dense codecs keep 0, which stands for all; topk ones keep 1 to 4095',
  });
}
