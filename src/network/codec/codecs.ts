/** Every way to pack a payload, how many bytes each takes, and the header of a payload: 84 bytes, little-endian. */
import { ConfigError, ok, type Result, refuse } from '../../base/errors.ts';
import { roundName, roundNumber } from '../../run/ids.ts';
import type { Layout } from '../../tensor/params.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { int4, int8 } from './integers.ts';
import { riceBytesAtMost } from './largest.ts';
import { q2, sign, ternary } from './levels.ts';
import { codedBytesAtMost } from './range-coded.ts';
import type { ValueCode } from './value-code.ts';

/** N S P L, version 1. */
const MAGIC = [0x4e, 0x53, 0x50, 0x4c];
const VERSION = 1;
/** Length of the header of a payload. */
export const PAYLOAD_HEADER_BYTES = 84;

/** What sender and receiver know without the payload. */
export interface PayloadScope {
  readonly run: Uint8Array;
  readonly round: number;
  /** Public key of the sender; with run and round it seeds the rotation of chunks. */
  readonly sender: Uint8Array;
  readonly size: number;
  /** Digest of the roster and the rule by which its workers own chunks. */
  readonly roster: Uint8Array;
  /** The chunks that the sender owns in this round, strictly ascending. */
  readonly chunks: Uint32Array;
}

/** How the chunks are packed, as numbers. */
export interface PackingFields {
  readonly code: number;
  /** Values sent of a chunk of 4096; 0 when all are. */
  readonly kept: number;
}

export function writePayloadHeader(
  out: Uint8Array,
  { code, kept }: PackingFields,
  { run, round, size, roster, chunks }: PayloadScope,
): void {
  const view = new DataView(out.buffer, out.byteOffset, PAYLOAD_HEADER_BYTES);
  out.set([...MAGIC, VERSION, code]);
  view.setUint16(6, kept, true);
  view.setUint32(8, round, true);
  view.setUint32(12, size, true);
  view.setUint32(16, chunks.length, true);
  out.set(run, 20);
  out.set(roster, 52);
}

/** How a payload is packed, when the rest of its header is what the receiver expects. */
export function readPayloadHeader(
  payload: Uint8Array,
  expected: PayloadScope,
): Result<PackingFields> {
  if (payload.length < PAYLOAD_HEADER_BYTES) {
    return refuse('truncated', 'header', `${payload.length} bytes are no header`);
  }
  if (MAGIC.some((byte, i) => payload[i] !== byte)) {
    return refuse('bad-payload', 'header.magic', 'not a payload');
  }
  if (payload[4] !== VERSION) {
    return refuse('unsupported-version', 'header.version', `version ${payload[4]}, not ${VERSION}`);
  }
  const view = new DataView(payload.buffer, payload.byteOffset, PAYLOAD_HEADER_BYTES);
  if (!holdsAt(payload, 20, expected.run)) {
    return refuse('other-run', 'header.run', 'made for another run');
  }
  const round = view.getUint32(8, true);
  if (round !== expected.round) {
    return refuse(
      'wrong-round',
      'header.round',
      `${roundName(round)}, not ${roundNumber(expected.round)}`,
    );
  }
  const size = view.getUint32(12, true);
  if (size !== expected.size) {
    return refuse('wrong-shape', 'header.size', `${size} parameters, not ${expected.size}`);
  }
  if (!holdsAt(payload, 52, expected.roster)) {
    return refuse('other-roster', 'header.roster', 'made for another roster');
  }
  const chunks = view.getUint32(16, true);
  if (chunks !== expected.chunks.length) {
    const owned = expected.chunks.length;
    return refuse(
      'wrong-shape',
      'header.chunks',
      `${chunks} chunks where the sender owns ${owned}`,
    );
  }
  return ok({ code: payload[5]!, kept: view.getUint16(6, true) });
}

const holdsAt = (bytes: Uint8Array, at: number, part: Uint8Array): boolean =>
  part.every((byte, i) => bytes[at + i] === byte);

export interface ChunkCodec {
  readonly code: number;
  readonly values: ValueCode;
  /** `all`: every value of a chunk, without indices. `largest`: the largest few, with their indices. */
  readonly sends: 'all' | 'largest';
}

/** Packs all chunks as one stream, into as many bytes as there are. */
export interface StreamCodec {
  readonly code: number;
  readonly sends: 'stream';
  /** What the values of a chunk are divided by: the root of their size, or their size, so that all lose one share. */
  readonly scales: 'root' | 'size';
  /** Whether chunks are rotated first, and levels lengthened to make up for values that round to 0. */
  readonly isRotated: boolean;
}

/** By name; the numbers are part of the format. nostrain 0.1.0 used 5, 17, 19 and 33 too: they stay free. */
export const codecs = {
  int8: { code: 1, values: int8, sends: 'all' },
  int4: { code: 2, values: int4, sends: 'all' },
  q2: { code: 3, values: q2, sends: 'all' },
  ternary: { code: 4, values: ternary, sends: 'all' },
  'topk-sign': { code: 21, values: sign, sends: 'largest' },
  scaled: { code: 34, sends: 'stream', scales: 'root', isRotated: false },
  rotated: { code: 35, sends: 'stream', scales: 'size', isRotated: true },
} as const satisfies Record<string, ChunkCodec | StreamCodec>;

/** Name of a payload codec. */
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

export function assertPacking(packing: Packing): void {
  if (isPacking(packing)) return;
  const { codec, kept } = packing;
  throw new ConfigError('codec/packing', `${codec} cannot keep ${kept} values of a chunk`, {
    hint: 'dense codecs keep 0, which stands for all; topk ones keep 1 to 4095',
  });
}

/** Most bytes a payload can have: every value, its descriptors, and what deflate may add. */
export const mostPayloadBytes = ({ size, slots }: Layout): number =>
  1024 + 6 * size + 256 * slots.length;
