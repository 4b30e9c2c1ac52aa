/**
 * Payloads of one range-coded stream (docs/payload.md): a scale byte per chunk, then integers and their two levels.
 */
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { Vector } from '../../tensor/params.ts';
import {
  CHUNK_LENGTH,
  chunkLength,
  type PartialVector,
  weighAll,
} from '../../tensor/partial-vector.ts';
import {
  codecs,
  PAYLOAD_HEADER_BYTES,
  type Packing,
  type PayloadScope,
  payloadBytesAtMost,
  type StreamCodec,
  type StreamCodecName,
  writePayloadHeader,
} from './codecs.ts';
import { type Coded, codedBytesAtMost, levelsOf, readCoded, writeCoded } from './range-coded.ts';
import { MOST_CODE } from './range-coder.ts';
import { inverseRotated, rotate, rotatedLength } from './rotation.ts';
import { chunkValues, levelBits, levelOf, loadChunk, writeLevelBits } from './value-code.ts';

export interface Stream {
  readonly coded: Coded;
  readonly scales: Uint8Array;
  readonly end: number;
}

/** Scale byte of 1; the largest scale of a stream is at least this. */
const WHOLE = 248;

/** Scale of each byte: a 4-bit mantissa times a power of two, from 2^-31 to 15/8. */
const SCALES = Float64Array.from({ length: 256 }, (_, byte) => {
  let scale = (8 + (byte & 7)) / 8;
  for (let power = byte >>> 3; power < 31; power++) scale /= 2;
  return scale;
});

/** Returns the byte nearest to a scale of at most 1. */
function scaleByte(scale: number): number {
  let [mantissa, power] = [scale, 31];
  for (; mantissa < 1 && power > 0; power--) mantissa *= 2;
  return mantissa < 1 ? 0 : 8 * power + Math.round(8 * (mantissa - 1));
}

const chunksOf = (count: number): number => Math.ceil(count / CHUNK_LENGTH);

/** Encodes finite values, all chunks full except the last, into at most `maxBytes` from `at` on. */
function writeStream(
  values: Float32Array,
  { scales: rule, isRotated }: Pick<StreamCodec, 'scales' | 'isRotated'>,
  out: Uint8Array,
  { at, maxBytes }: { readonly at: number; readonly maxBytes: number },
): Stream {
  const count = chunksOf(values.length);
  if (count === 0) {
    const { end, ...coded } = writeCoded(values, out, { at, maxBytes });
    return { coded, scales: new Uint8Array(0), end };
  }
  const scales = scalesFor(values, rule);
  const target = { at: at + count, maxBytes: maxBytes - count, isLengthened: isRotated };
  const { end, ...coded } = writeCoded(scaledDown(values, scales), out, target);
  const stream = onlyOfValues({ coded, scales, end }, out, at + count);
  out.set(stream.scales, at);
  return stream;
}

/**
 * Returns the scale of each chunk: its root mean square relative to the largest, or the square root of that, which
 * loses least without a rotation.
 */
function scalesFor(values: Float32Array, rule: 'root' | 'size'): Uint8Array {
  const means = Array.from({ length: chunksOf(values.length) }, (_, chunk) => {
    const part = values.subarray(chunk * CHUNK_LENGTH, (chunk + 1) * CHUNK_LENGTH);
    let sum = 0;
    for (let i = 0; i < part.length; i++) sum += part[i]! * part[i]!;
    return sum / part.length;
  });
  const most = means.reduce((a, b) => Math.max(a, b), 0);
  return Uint8Array.from(means, (mean) => {
    const size = most > 0 ? Math.sqrt(mean / most) : 0;
    return scaleByte(rule === 'root' ? Math.sqrt(size) : size);
  });
}

function scaledDown(values: Float32Array, scales: Uint8Array): Float32Array {
  const scaled = new Float32Array(values.length);
  for (let chunk = 0; chunk < scales.length; chunk++) {
    const scale = SCALES[scales[chunk]!]!;
    const end = Math.min(values.length, (chunk + 1) * CHUNK_LENGTH);
    for (let i = chunk * CHUNK_LENGTH; i < end; i++) scaled[i] = values[i]! / scale;
  }
  return scaled;
}

/**
 * Sets the scales of chunks without values to 0. If the largest scale was one of them, raises the others and lowers the
 * levels by powers of two.
 */
function onlyOfValues({ coded, scales, end }: Stream, out: Uint8Array, at: number): Stream {
  const kept = scales.map((scale, chunk) => (sendsAny(coded.codes, chunk) ? scale : 0));
  const top = kept.reduce((a, b) => Math.max(a, b), 0);
  const up = coded.first > 0 ? Math.max(0, (WHOLE >>> 3) - (top >>> 3)) : 0;
  if (up === 0) return { coded, scales: kept, end };
  const lower = (level: number): number => levelBits(level / 2 ** up);
  const [first, step] = [lower(coded.first), lower(coded.step)];
  if (first === 0 || (step === 0 && coded.step > 0)) {
    const nothing = { codes: coded.codes.fill(0), first: 0, step: 0 };
    out.fill(0, at, end);
    return { coded: nothing, scales: kept.fill(0), end: at + 4 };
  }
  writeLevelBits(out, at, first);
  writeLevelBits(out, at + 2, step);
  const raised = kept.map((scale, chunk) => (sendsAny(coded.codes, chunk) ? scale + 8 * up : 0));
  const levels = { first: levelOf(first), step: levelOf(step) };
  return { coded: { ...coded, ...levels }, scales: raised, end };
}

const sendsAny = (codes: Int8Array, chunk: number): boolean =>
  codes.subarray(chunk * CHUNK_LENGTH, (chunk + 1) * CHUNK_LENGTH).some((code) => code !== 0);

/**
 * Decodes a stream of `count` values from another worker; returns it with the end offset, or refuses what is not
 * canonical.
 */
export function readStream(bytes: Uint8Array, at: number, count: number): Result<Stream> {
  const chunks = chunksOf(count);
  const read = readCoded(bytes, at + chunks, count);
  if (!read.ok) return read;
  const { end, ...coded } = read.value;
  if (chunks === 0) return ok({ coded, scales: new Uint8Array(0), end });
  const scales = bytes.slice(at, at + chunks);
  const isIdle = scales.every((scale, chunk) => scale === 0 || sendsAny(coded.codes, chunk));
  const top = scales.reduce((a, b) => Math.max(a, b), 0);
  if (isIdle && (coded.first === 0 || top >= WHOLE)) return ok({ coded, scales, end });
  return refuse(
    'bad-level',
    'values',
    'a chunk without values has a scale, or the largest scale is below 1',
  );
}

/** Returns the chunks of a stream as values; `lengths` are the values per chunk. */
export function streamView(
  { coded, scales }: Stream,
  lengths: readonly number[],
): Pick<PartialVector, 'addChunk'> {
  const { codes } = coded;
  const levels = levelsOf(coded);
  return {
    addChunk(position, weight, target, at) {
      const n = lengths[position]!;
      const from = position * CHUNK_LENGTH;
      // exact: levels have few significant bits, and a scale has 4
      const scale = SCALES[scales[position]!]!;
      for (let i = 0; i < n; i++) {
        target[at + i] = target[at + i]! + weight * (scale * levels[codes[from + i]! + MOST_CODE]!);
      }
    },
  };
}

export interface EncodedPayload {
  readonly payload: Uint8Array;
  /** Exactly what a receiver decodes; the delta minus this is the residual. */
  readonly sent: PartialVector;
}

const codecOf = ({ codec }: Packing) => codecs[codec as StreamCodecName];

/** Encodes the chunks of a scope. Throws a TrainingError if a value is not finite as f32. */
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
  const target = { at: PAYLOAD_HEADER_BYTES, maxBytes: most - PAYLOAD_HEADER_BYTES };
  const stream = writeStream(values, codec, out, target);
  return { payload: out.slice(0, stream.end), sent: asSent(stream, packing, scope) };
}

/** Decodes the stream of a payload whose header was read. Refuses one that is not canonical. */
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
    return refuse(
      'trailing-bytes',
      'payload',
      `${length} bytes, but the values end at ${read.value.end}`,
    );
  }
  return ok({ packing, delta: asSent(read.value, packing, scope) });
}

function asSent(stream: Stream, packing: Packing, scope: PayloadScope): PartialVector {
  const { size, chunks } = scope;
  const view = streamView(stream, lengthsOf(packing, scope));
  const { addChunk } = codecOf(packing).isRotated ? inverseRotated(view, scope) : view;
  return { size, chunks, addChunk, weighChunk: weighAll(chunks, size) };
}

function lengthsOf(packing: Packing, { size, chunks }: PayloadScope): readonly number[] {
  const lengths = Array.from(chunks, (chunk) => chunkLength(size, chunk));
  return codecOf(packing).isRotated ? lengths.map(rotatedLength) : lengths;
}

const sumOf = (lengths: readonly number[]): number => lengths.reduce((sum, n) => sum + n, 0);

function valuesOf(delta: Vector, packing: Packing, scope: PayloadScope): Float32Array {
  const { size, chunks } = scope;
  const lengths = lengthsOf(packing, scope);
  const values = new Float32Array(sumOf(lengths));
  const [one, whole] = [chunkValues(CHUNK_LENGTH), new Float64Array(CHUNK_LENGTH)];
  let at = 0;
  chunks.forEach((chunk, position) => {
    const n = chunkLength(size, chunk);
    loadChunk(delta, chunk * CHUNK_LENGTH, n, one);
    const buffer = whole.subarray(0, lengths[position]!).fill(0);
    buffer.set(one.floats.subarray(0, n));
    if (codecOf(packing).isRotated) rotate(buffer, chunk, scope);
    values.set(buffer, at);
    at += buffer.length;
  });
  return values;
}
