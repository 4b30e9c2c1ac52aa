/** The table of payload codecs, and the size of a payload under each. */
import { ConfigError } from '../../base/errors.ts';
import type { Layout } from '../../tensor/params.ts';
import { CHUNK_LENGTH } from '../../tensor/partial-vector.ts';
import { PAYLOAD_HEADER_BYTES } from './header.ts';
import { int8 } from './int8.ts';
import { SCALE_BYTES, trellis } from './trellis.ts';
import type { ChunkCode } from './value-code.ts';

export interface Codec {
  /** Its number in the header. */
  readonly code: number;
  readonly values: ChunkCode;
  /** Largest `kept`; 0 if the codec has one rate. */
  readonly mostKept: number;
}

/**
 * Codecs by name; the codes are part of the format. Codes 2 to 5, 17 to 21 and 33 to 35 belonged to removed codecs; do
 * not reuse them. At most 2 bits a value fit a trellis code.
 */
export const codecs = {
  int8: { code: 1, values: int8, mostKept: 0 },
  trellis: { code: 36, values: trellis, mostKept: CHUNK_LENGTH / 4 },
} as const satisfies Record<string, Codec>;

/** Name of a payload codec. */
export type CodecName = keyof typeof codecs;

/** A codec and its rate. */
export interface Packing {
  readonly codec: CodecName;
  /** `trellis`: bytes of codes of a full chunk, 1 to 1024; otherwise 0. */
  readonly kept: number;
}

function isPacking({ codec, kept }: Packing): boolean {
  const { mostKept } = codecs[codec];
  return Number.isInteger(kept) && kept >= Math.min(1, mostKept) && kept <= mostKept;
}

export function packingOf(code: number, kept: number): Packing | undefined {
  for (const codec of Object.keys(codecs) as CodecName[]) {
    if (codecs[codec].code === code && isPacking({ codec, kept })) return { codec, kept };
  }
  return undefined;
}

/** Returns the bytes of this many chunks with their header; `n` is the number of values in each. */
export const payloadBytes = ({ codec, kept }: Packing, chunks: number, n = CHUNK_LENGTH): number =>
  PAYLOAD_HEADER_BYTES + chunks * codecs[codec].values.bytes(n, kept);

/** Returns the trellis code with the most bits that fit. Throws a ConfigError if not one byte a chunk fits. */
export function trellisWithin(maxBytes: number, chunks: number): Packing {
  const perChunk = Math.floor((maxBytes - PAYLOAD_HEADER_BYTES) / chunks) - SCALE_BYTES;
  if (perChunk >= 1) {
    return { codec: 'trellis', kept: Math.min(codecs.trellis.mostKept, perChunk) };
  }
  throw new ConfigError('codec/budget', `${maxBytes} bytes are too few for ${chunks} chunks`, {
    hint: 'allow more bytes (--set eventBudget), or send a part in each round (--set fragments)',
  });
}

/** Throws a ConfigError (`codec/packing`) if the codec has no such rate. */
export function assertPacking(packing: Packing): void {
  if (isPacking(packing)) return;
  const { codec, kept } = packing;
  throw new ConfigError('codec/packing', `${codec} cannot send ${kept} bytes of a chunk`, {
    hint: 'use 1 to 1024 bytes for trellis, 0 for int8',
  });
}

/** Returns an upper bound on the bytes of a payload: values, tensor descriptors and deflate overhead. */
export const mostPayloadBytes = ({ size, slots }: Layout): number =>
  1024 + 6 * size + 256 * slots.length;
