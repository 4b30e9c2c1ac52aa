/**
 * The table of payload codecs, the size of a payload under each, and the 84-byte payload header (little-endian,
 * docs/payload.md).
 */
import { ConfigError, ok, type Result, refuse } from '../../base/errors.ts';
import { roundName, roundNumber } from '../../run/ids.ts';
import type { Layout } from '../../tensor/params.ts';
import { CHUNK_LENGTH, type PartialVector } from '../../tensor/partial-vector.ts';
import { int4, int8 } from './integers.ts';
import { riceBytesAtMost } from './largest.ts';
import { q2, sign, ternary } from './levels.ts';
import type { ValueCode } from './value-code.ts';

/** "NSPL"; the version byte follows. */
const MAGIC = [0x4e, 0x53, 0x50, 0x4c];
const VERSION = 1;
/** Length of the header of a payload. */
export const PAYLOAD_HEADER_BYTES = 84;

/** Context of a payload that sender and receiver both know; the header is checked against it. */
export interface PayloadScope {
  readonly run: Uint8Array;
  readonly round: number;
  /** Public key of the sender; with run and round it seeds the rotation of chunks. */
  readonly sender: Uint8Array;
  readonly size: number;
  /** Digest of the roster and of the rule that assigns chunks to its workers. */
  readonly roster: Uint8Array;
  /** Chunks that the sender owns in this round, strictly ascending. */
  readonly chunks: Uint32Array;
}

/** Codec and top-k count as they stand in the header. */
export interface PackingFields {
  readonly code: number;
  /** Values sent per full chunk of 4096; 0 if all are sent. */
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

/**
 * Returns codec and top-k count. Refuses a header that does not match the expected run, round, size, roster and chunks.
 */
export function readPayloadHeader(
  payload: Uint8Array,
  expected: PayloadScope,
): Result<PackingFields> {
  if (payload.length < PAYLOAD_HEADER_BYTES) {
    return refuse('truncated', 'header', `${payload.length} bytes are too short for a header`);
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
    return refuse('wrong-shape', 'header.chunks', `${chunks} chunks, but the sender owns ${owned}`);
  }
  return ok({ code: payload[5]!, kept: view.getUint16(6, true) });
}

const holdsAt = (bytes: Uint8Array, at: number, part: Uint8Array): boolean =>
  part.every((byte, i) => bytes[at + i] === byte);

export interface ChunkCodec {
  readonly code: number;
  readonly values: ValueCode;
  /** `all`: every value of a chunk, without indices. `largest`: only the largest values, with their indices. */
  readonly sends: 'all' | 'largest';
}

/** A codec that rotates chunks and codes each in a fixed number of bits. */
export interface TrellisCodec {
  readonly code: number;
  readonly sends: 'bits';
}

/**
 * Codecs by name; the codes are part of the format. Codes 5, 17, 19 and 33 to 35 belonged to removed
 * codecs; do not reuse them.
 */
export const codecs = {
  int8: { code: 1, values: int8, sends: 'all' },
  int4: { code: 2, values: int4, sends: 'all' },
  q2: { code: 3, values: q2, sends: 'all' },
  ternary: { code: 4, values: ternary, sends: 'all' },
  'topk-sign': { code: 21, values: sign, sends: 'largest' },
  trellis: { code: 36, sends: 'bits' },
} as const satisfies Record<string, ChunkCodec | TrellisCodec>;

/** Name of a payload codec. */
export type CodecName = keyof typeof codecs;

/** A codec and how much it sends of each chunk. */
export interface Packing {
  readonly codec: CodecName;
  /** Of a full chunk: values kept by a top-k codec, bytes of codes in a trellis code; 0 for codecs that send all. */
  readonly kept: number;
}

/** A packing of a codec with one of the value codes. */
export type ChunkPacking = Packing & { readonly codec: Exclude<CodecName, 'trellis'> };

export const isChunkPacking = (packing: Packing): packing is ChunkPacking =>
  packing.codec !== 'trellis';

export interface EncodedPayload {
  readonly payload: Uint8Array;
  /** Exactly what a receiver decodes; the delta minus this is the residual. */
  readonly sent: PartialVector;
}

/** Maximum bytes of codes of a full chunk in a trellis code: 2 bits a value. */
export const MOST_CODE_BYTES = CHUNK_LENGTH / 4;
/** Bytes of a chunk's scale in a trellis code. */
export const SCALE_BYTES = 2;

/** Reports whether `kept` fits the codec: 1 to 4095 for top-k codecs, 1 to 1024 for trellis codes, 0 for others. */
function isPacking({ codec, kept }: Packing): boolean {
  const most = { largest: CHUNK_LENGTH - 1, bits: MOST_CODE_BYTES, all: 0 };
  const { sends } = codecs[codec];
  return Number.isInteger(kept) && kept >= Math.min(1, most[sends]) && kept <= most[sends];
}

export function packingOf(code: number, kept: number): Packing | undefined {
  for (const codec of Object.keys(codecs) as CodecName[]) {
    if (codecs[codec].code === code && isPacking({ codec, kept })) return { codec, kept };
  }
  return undefined;
}

/** Returns how many values of a chunk of n are sent: its share of `kept`, rounded half up, at least 1. */
export const keptOf = (kept: number, n: number): number =>
  Math.max(1, Math.floor((2 * kept * n + CHUNK_LENGTH) / (2 * CHUNK_LENGTH)));

/** Returns the bytes of one chunk of n values: exact for a dense codec, an upper bound for top-k. */
export function chunkBytesAtMost({ codec, kept }: ChunkPacking, n: number): number {
  const { values, sends } = codecs[codec];
  if (sends === 'all') return values.bytes(n);
  const k = keptOf(kept, n);
  return values.bytes(k) + riceBytesAtMost(n, k);
}

/** Returns the bytes of a payload of this many full chunks: exact for dense codecs, an upper bound for the others. */
export const payloadBytesAtMost = (packing: Packing, chunks: number): number =>
  PAYLOAD_HEADER_BYTES +
  chunks *
    (isChunkPacking(packing)
      ? chunkBytesAtMost(packing, CHUNK_LENGTH)
      : SCALE_BYTES + packing.kept);

export function assertPacking(packing: Packing): void {
  if (isPacking(packing)) return;
  const { codec, kept } = packing;
  throw new ConfigError('codec/packing', `${codec} cannot send ${kept} of a chunk`, {
    hint: 'use 1 to 4095 values for a top-k codec, 1 to 1024 bytes for trellis, 0 for others',
  });
}

/** Returns an upper bound on the bytes of a payload: values, tensor descriptors and deflate overhead. */
export const mostPayloadBytes = ({ size, slots }: Layout): number =>
  1024 + 6 * size + 256 * slots.length;
