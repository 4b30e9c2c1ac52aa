/** Payloads of the codecs that pack all chunks as one range-coded stream with a scale for each chunk: `scaled`, and `rotated`, which rotates chunks first. */
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { Vector } from '../../tensor/params.ts';
import {
  CHUNK_LENGTH,
  chunkLength,
  type PartialVector,
  weighAll,
} from '../../tensor/partial-vector.ts';
import { codecs, type Packing, payloadBytesAtMost, type StreamCodecName } from './codecs.ts';
import { PAYLOAD_HEADER_BYTES, type PayloadScope, writePayloadHeader } from './payload-header.ts';
import { codedBytesAtMost } from './range-coded.ts';
import { turn, turnedBack, turnedLength } from './rotation.ts';
import { readStream, type Stream, streamView, writeStream } from './stream.ts';
import { chunkValues, loadChunk } from './values/value-code.ts';

export interface EncodedPayload {
  readonly payload: Uint8Array;
  /** Exactly what a receiver decodes; the delta minus this is the residual. */
  readonly sent: PartialVector;
}

const codecOf = ({ codec }: Packing) => codecs[codec as StreamCodecName];

/** Packs the chunks of a scope. Throws when one of their values is not finite as f32. */
export function encodeStream(delta: Vector, packing: Packing, scope: PayloadScope): EncodedPayload {
  const codec = codecOf(packing);
  const values = valuesOf(delta, packing, scope);
  const { length } = scope.chunks;
  const most = Math.min(
    payloadBytesAtMost(packing, length),
    PAYLOAD_HEADER_BYTES + length + codedBytesAtMost(values.length),
  );
  const out = new Uint8Array(most);
  writePayloadHeader(out, { code: codec.code, kept: 0 }, scope);
  const place = { at: PAYLOAD_HEADER_BYTES, maxBytes: most - PAYLOAD_HEADER_BYTES };
  const stream = writeStream(values, codec, out, place);
  return { payload: out.slice(0, stream.end), sent: asSent(stream, packing, scope) };
}

/** The delta in a payload from a stranger whose header was read. */
export function decodeStream(
  payload: Uint8Array,
  packing: Packing,
  scope: PayloadScope,
): Result<{ readonly packing: Packing; readonly delta: PartialVector }> {
  const count = sumOf(lengthsOf(packing, scope));
  const read = readStream(payload, PAYLOAD_HEADER_BYTES, count);
  if (!read.ok) return read;
  if (read.value.end !== payload.length) {
    const { length } = payload;
    return refuse('trailing-bytes', 'payload', `${length} bytes, values end at ${read.value.end}`);
  }
  return ok({ packing, delta: asSent(read.value, packing, scope) });
}

function asSent(stream: Stream, packing: Packing, scope: PayloadScope): PartialVector {
  const { size, chunks } = scope;
  const view = streamView(stream, lengthsOf(packing, scope));
  const { addChunk } = codecOf(packing).isTurned ? turnedBack(view, scope) : view;
  return { size, chunks, addChunk, weighChunk: weighAll(chunks, size) };
}

/** How many numbers stand for each chunk. */
function lengthsOf(packing: Packing, { size, chunks }: PayloadScope): readonly number[] {
  const lengths = Array.from(chunks, (chunk) => chunkLength(size, chunk));
  return codecOf(packing).isTurned ? lengths.map(turnedLength) : lengths;
}

const sumOf = (lengths: readonly number[]): number => lengths.reduce((sum, n) => sum + n, 0);

/** The numbers of all chunks as f32, one after the other. */
function valuesOf(delta: Vector, packing: Packing, scope: PayloadScope): Float32Array {
  const { size, chunks } = scope;
  const lengths = lengthsOf(packing, scope);
  const values = new Float32Array(sumOf(lengths));
  const [one, whole] = [chunkValues(CHUNK_LENGTH), new Float64Array(CHUNK_LENGTH)];
  let at = 0;
  chunks.forEach((chunk, position) => {
    const n = chunkLength(size, chunk);
    loadChunk(delta, chunk * CHUNK_LENGTH, n, one);
    const room = whole.subarray(0, lengths[position]!).fill(0);
    room.set(one.floats.subarray(0, n));
    if (codecOf(packing).isTurned) turn(room, chunk, scope);
    values.set(room, at);
    at += room.length;
  });
  return values;
}
