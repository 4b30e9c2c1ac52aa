/**
 * Encodes and decodes compact payloads (docs/payload.md): a header, then the chunks that a worker owns, each in a fixed
 * number of bytes. Decoding accepts only the canonical encoding.
 */
import { atOnce } from '../../base/async.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { Vector } from '../../tensor/params.ts';
import {
  CHUNK_LENGTH,
  chunkCount,
  chunkLength,
  type PartialVector,
  weighAll,
} from '../../tensor/partial-vector.ts';
import { assertPacking, codecs, type Packing, packingOf } from './codecs.ts';
import {
  PAYLOAD_HEADER_BYTES,
  type PayloadScope,
  readPayloadHeader,
  writePayloadHeader,
} from './header.ts';
import { loadChunk, type Place } from './value-code.ts';

export interface EncodedPayload {
  readonly payload: Uint8Array;
  /** Exactly what a receiver decodes; the delta minus this is the residual. */
  readonly sent: PartialVector;
}

/**
 * Encodes the owned chunks of a delta, one per step. Throws a TrainingError if a value is not finite as f32, or too
 * large.
 */
export function* encodeSteps(
  delta: Vector,
  packing: Packing,
  scope: PayloadScope,
): Generator<undefined, EncodedPayload> {
  assertPacking(packing);
  assertScope(scope);
  if (delta.length !== scope.size && !isPrefix(delta, scope)) {
    throw new RangeError(`${delta.length} values for ${scope.size} parameters`);
  }
  const { code, values } = codecs[packing.codec];
  const places = placesOf(packing, scope);
  const payload = new Uint8Array(endOf(places));
  writePayloadHeader(payload, { code, kept: packing.kept }, scope);
  for (const place of places) {
    values.write(loadChunk(delta, place.chunk, place.n), place, scope, payload);
    yield;
  }
  return { payload, sent: view(payload, packing, places, scope) };
}

/** Encodes the owned chunks of a delta at once. Throws like `encodeSteps`. */
export function encodePayload(
  delta: Vector,
  packing: Packing,
  scope: PayloadScope,
): EncodedPayload {
  return atOnce(encodeSteps(delta, packing, scope));
}

/** Reports whether a delta is a prefix of full chunks that contains all owned chunks. */
const isPrefix = ({ length }: Vector, { size, chunks }: PayloadScope): boolean =>
  length < size && length % CHUNK_LENGTH === 0 && (chunks.at(-1) ?? -1) < length / CHUNK_LENGTH;

/**
 * Decodes a payload from another worker. Refuses one that does not match the scope. The delta reads from the payload's
 * bytes, which must not change.
 */
export function decodePayload(
  payload: Uint8Array,
  scope: PayloadScope,
): Result<{ readonly packing: Packing; readonly delta: PartialVector }> {
  assertScope(scope);
  const header = readPayloadHeader(payload, scope);
  if (!header.ok) return header;
  const packing = packingOf(header.value.code, header.value.kept);
  if (packing === undefined) {
    const { code, kept } = header.value;
    return refuse('unsupported-codec', 'header.code', `no codec ${code} that keeps ${kept}`);
  }
  const places = placesOf(packing, scope);
  const end = endOf(places);
  if (payload.length !== end) {
    const why = payload.length < end ? 'truncated' : 'trailing-bytes';
    return refuse(why, 'payload', `${payload.length} bytes instead of ${end}`);
  }
  for (const place of places) {
    const flaw = codecs[packing.codec].values.flaw(payload, place);
    const { chunk } = place;
    if (flaw !== undefined) return refuse(flaw, `chunks.${chunk}`, `chunk ${chunk}: ${flaw}`);
  }
  return ok({ packing, delta: view(payload, packing, places, scope) });
}

function placesOf({ codec, kept }: Packing, { size, chunks }: PayloadScope): readonly Place[] {
  let at = PAYLOAD_HEADER_BYTES;
  return Array.from(chunks, (chunk) => {
    const n = chunkLength(size, chunk);
    const place = { chunk, n, at, bytes: codecs[codec].values.bytes(n, kept) };
    at += place.bytes;
    return place;
  });
}

function endOf(places: readonly Place[]): number {
  const last = places.at(-1);
  return last === undefined ? PAYLOAD_HEADER_BYTES : last.at + last.bytes;
}

function view(
  payload: Uint8Array,
  { codec }: Packing,
  places: readonly Place[],
  scope: PayloadScope,
): PartialVector {
  const { size, chunks } = scope;
  const { values } = codecs[codec];
  return {
    size,
    chunks,
    addChunk: (position, weight, target, at) =>
      values.add(payload, places[position]!, scope, weight, target, at),
    weighChunk: weighAll(chunks, size),
  };
}

/**
 * Throws a RangeError for a scope that this program built wrongly: digests of the wrong length, or chunks not ascending
 * or outside the vector.
 */
function assertScope({ run, roster, round, size, chunks }: PayloadScope): void {
  const isU32 = (value: number) => value === value >>> 0;
  if (run.length !== 32 || roster.length !== 32) throw new RangeError('a digest has 32 bytes');
  if (!isU32(round) || !isU32(size))
    throw new RangeError(`round index ${round}, ${size} parameters`);
  for (let i = 0; i < chunks.length; i++) {
    if (chunks[i]! >= chunkCount(size) || (i > 0 && chunks[i]! <= chunks[i - 1]!)) {
      throw new RangeError(`chunk ${chunks[i]} is out of place`);
    }
  }
}
