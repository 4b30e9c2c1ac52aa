/**
 * Trellis payloads (docs/payload.md): each chunk is rotated, then coded by itself as a scale and a fixed number of
 * bits. The scale makes a chunk unbiased: the product of delta and decoded values is the square of the delta.
 */
import { ok, type Result, refuse, TrainingError } from '../../base/errors.ts';
import type { Vector } from '../../tensor/params.ts';
import {
  CHUNK_LENGTH,
  chunkLength,
  type PartialVector,
  weighAll,
} from '../../tensor/partial-vector.ts';
import {
  codecs,
  type EncodedPayload,
  keptOf,
  PAYLOAD_HEADER_BYTES,
  type Packing,
  type PayloadScope,
  SCALE_BYTES,
  writePayloadHeader,
} from './codecs.ts';
import { inverseRotated, rotate, rotatedLength } from './rotation.ts';
import { CODEWORD_SIZE, codebook, decodeBits, stepLength } from './trellis-book.ts';
import {
  chunkValues,
  levelBits,
  levelOf,
  loadChunk,
  nearest,
  readLevelBits,
  writeLevelBits,
} from './value-code.ts';
import { searchBits } from './viterbi.ts';

/** Bits of the smallest scale, 2^-126, and of the largest, 2^112, with which every decoded value is a finite f32. */
const [LEAST_SCALE, MOST_SCALE] = [0x0080, 0x7780];
const MOST_INT16 = 32_767;
/** Largest square of the gain, so that the sums of the search fit 32 bits. */
const MOST_SQUARED_GAIN = 16;

/** Where a chunk is in a payload, and its sizes. */
interface Place {
  readonly chunk: number;
  /** Address of its scale; the codes follow. */
  readonly at: number;
  /** Values of the rotated chunk. */
  readonly count: number;
  readonly bytes: number;
}

function placesOf({ kept }: Packing, { size, chunks }: PayloadScope): readonly Place[] {
  let at = PAYLOAD_HEADER_BYTES;
  return Array.from(chunks, (chunk) => {
    const count = rotatedLength(chunkLength(size, chunk));
    const place = { chunk, at, count, bytes: keptOf(kept, count) };
    at += SCALE_BYTES + place.bytes;
    return place;
  });
}

const endOf = (places: readonly Place[]): number => {
  const last = places.at(-1);
  return last === undefined ? PAYLOAD_HEADER_BYTES : last.at + SCALE_BYTES + last.bytes;
};

/** Encodes the chunks of a scope. Throws a TrainingError if a value is not finite as f32, or too large. */
export function encodeTrellis(
  delta: Vector,
  packing: Packing,
  scope: PayloadScope,
): EncodedPayload {
  const places = placesOf(packing, scope);
  const payload = new Uint8Array(endOf(places));
  writePayloadHeader(payload, { code: codecs[packing.codec].code, kept: packing.kept }, scope);
  const [one, whole] = [chunkValues(CHUNK_LENGTH), new Float64Array(CHUNK_LENGTH)];
  for (const place of places) {
    const n = chunkLength(scope.size, place.chunk);
    loadChunk(delta, place.chunk * CHUNK_LENGTH, n, one);
    const values = whole.subarray(0, place.count).fill(0);
    values.set(one.floats.subarray(0, n));
    rotate(values, place.chunk, scope);
    encodeChunk(values, place, payload);
  }
  return { payload, sent: view(payload, places, scope) };
}

/** Writes the scale and the bits of rotated values; all zero if the scale would be too small. */
function encodeChunk(values: Float64Array, { at, count, bytes }: Place, out: Uint8Array): void {
  let energy = 0;
  for (let i = 0; i < count; i++) energy += values[i]! * values[i]!;
  if (energy === 0) return;
  const bits = 8 * bytes;
  const factor = CODEWORD_SIZE * gain(bits / count) * Math.sqrt(count / energy);
  const integers = new Int16Array(count);
  for (let i = 0; i < count; i++) {
    integers[i] = Math.max(-MOST_INT16, Math.min(MOST_INT16, nearest(values[i]! * factor)));
  }
  const codes = searchBits(integers, bits);
  const decoded = new Float64Array(count);
  decodeBits(codes, { at: 0, bits, count }, bookFor(count, bits), 1, decoded);
  let along = 0;
  for (let i = 0; i < count; i++) along += values[i]! * decoded[i]!;
  const scale = along > 0 ? levelBits(energy / along) : 0;
  if (scale > MOST_SCALE) {
    throw new TrainingError('codec/range', `scale ${energy / along} of the delta is out of range`, {
      hint: 'training diverged; lower the learning rate or clip gradients',
    });
  }
  if (scale === 0) return;
  writeLevelBits(out, at, scale);
  out.set(codes, at + SCALE_BYTES);
}

/**
 * Returns the size of values relative to codewords in the search: at few bits a value, the nearest codewords are
 * shorter than the values. Close to 1 / (1 - 2^(-2 rate)), squared.
 */
const gain = (rate: number): number =>
  Math.sqrt(Math.max(1, Math.min(MOST_SQUARED_GAIN, 0.5 + 0.72 / rate)));

/** Decodes the chunks of a payload whose header was read. Refuses wrong lengths and scales. */
export function decodeTrellis(
  payload: Uint8Array,
  packing: Packing,
  scope: PayloadScope,
): Result<{ readonly packing: Packing; readonly delta: PartialVector }> {
  const places = placesOf(packing, scope);
  const end = endOf(places);
  if (payload.length !== end) {
    const why = payload.length < end ? 'truncated' : 'trailing-bytes';
    return refuse(why, 'payload', `${payload.length} bytes instead of ${end}`);
  }
  for (const { chunk, at, bytes } of places) {
    const scale = readLevelBits(payload, at);
    const wrong = (why: string) => refuse(why, `chunks.${chunk}`, `chunk ${chunk}: ${why}`);
    if (scale !== 0 && (scale < LEAST_SCALE || scale > MOST_SCALE)) return wrong('bad-level');
    // without a scale, codes say nothing and would be a second spelling
    const codes = payload.subarray(at + SCALE_BYTES, at + SCALE_BYTES + bytes);
    if (scale === 0 && codes.some((byte) => byte !== 0)) return wrong('bad-value');
  }
  return ok({ packing, delta: view(payload, places, scope) });
}

function view(payload: Uint8Array, places: readonly Place[], scope: PayloadScope): PartialVector {
  const { size, chunks } = scope;
  const rotated: Pick<PartialVector, 'addChunk'> = {
    addChunk(position, _weight, target) {
      const { at, count, bytes } = places[position]!;
      const bits = 8 * bytes;
      const scale = levelOf(readLevelBits(payload, at));
      if (scale === 0) return;
      const from = { at: at + SCALE_BYTES, bits, count };
      decodeBits(payload, from, bookFor(count, bits), scale, target);
    },
  };
  const { addChunk } = inverseRotated(rotated, scope);
  return { size, chunks, addChunk, weighChunk: weighAll(chunks, size) };
}

let book = codebook(0);
let bookLength = 0;

/** Returns the codebook for steps of this many values; the last one is kept. */
function bookFor(count: number, bits: number): Int16Array {
  const length = stepLength(count, bits);
  if (length !== bookLength) [book, bookLength] = [codebook(length), length];
  return book;
}
