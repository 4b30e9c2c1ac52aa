/**
 * Encodes and decodes compact payloads (docs/payload.md): a header, then the chunks that a worker owns. Decoding
 * accepts only the canonical encoding.
 */
import { ok, type Result, refuse } from '../../base/errors.ts';
import type { Vector } from '../../tensor/params.ts';
import {
  CHUNK_LENGTH,
  chunkCount,
  chunkLength,
  type PartialVector,
  weighAll,
} from '../../tensor/partial-vector.ts';
import {
  assertPacking,
  type ChunkPacking,
  chunkBytesAtMost,
  codecs,
  type EncodedPayload,
  isChunkPacking,
  keptOf,
  PAYLOAD_HEADER_BYTES,
  type Packing,
  type PayloadScope,
  packingOf,
  payloadBytesAtMost,
  readPayloadHeader,
  writePayloadHeader,
} from './codecs.ts';
import {
  createSelectionBuffers,
  readRice,
  riceParameter,
  selectInChunk,
  writeRice,
} from './largest.ts';
import { decodeTrellis, encodeTrellis } from './trellis.ts';
import { addUp, chunkValues, loadChunk } from './value-code.ts';

/** Encodes the owned chunks of a delta. Throws a TrainingError if a value is not finite as f32. */
export function encodePayload(
  delta: Vector,
  packing: Packing,
  scope: PayloadScope,
): EncodedPayload {
  assertPacking(packing);
  assertScope(scope);
  if (delta.length !== scope.size && !isPrefix(delta, scope)) {
    throw new RangeError(`${delta.length} values for ${scope.size} parameters`);
  }
  if (!isChunkPacking(packing)) return encodeTrellis(delta, packing, scope);
  const { values: code, sends } = codecs[packing.codec];
  const { size, chunks } = scope;
  const out = new Uint8Array(payloadBytesAtMost(packing, chunks.length));
  writePayloadHeader(out, { code: codecs[packing.codec].code, kept: packing.kept }, scope);
  const table = sends === 'all' ? undefined : createIndexTable(packing, size, chunks);
  const buffers = createSelectionBuffers();
  const [all, few] = [chunkValues(CHUNK_LENGTH), chunkValues(CHUNK_LENGTH)];
  const indices = new Uint16Array(CHUNK_LENGTH);
  let at = PAYLOAD_HEADER_BYTES;
  for (let position = 0; position < chunks.length; position++) {
    const n = chunkLength(size, chunks[position]!);
    loadChunk(delta, chunks[position]! * CHUNK_LENGTH, n, all);
    if (table === undefined) {
      code.write(all, n, out, at);
      at += code.bytes(n);
      continue;
    }
    const k = keptOf(packing.kept, n);
    selectInChunk(all, n, k, buffers, indices);
    for (let i = 0; i < k; i++) few.floats[i] = all.floats[indices[i]!]!;
    addUp(few, k);
    code.write(few, k, out, at);
    table.offsets[position] = at;
    table.indices.set(indices.subarray(0, k), table.firsts[position]);
    at = writeRice(indices, k, riceParameter(n, k), out, at + code.bytes(k));
  }
  const payload = out.slice(0, at);
  return { payload, sent: view(payload, packing, scope, table) };
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
  if (payload.length > payloadBytesAtMost(packing, scope.chunks.length)) {
    return refuse('trailing-bytes', 'payload', `${payload.length} bytes are more than it can hold`);
  }
  if (!isChunkPacking(packing)) return decodeTrellis(payload, packing, scope);
  const { sends } = codecs[packing.codec];
  const table = sends === 'all' ? undefined : createIndexTable(packing, scope.size, scope.chunks);
  const end = checkChunks(payload, packing, scope, table);
  if (!end.ok) return end;
  if (end.value !== payload.length) {
    return refuse(
      'trailing-bytes',
      'payload',
      `${payload.length} bytes, the last chunk ends at ${end.value}`,
    );
  }
  return ok({ packing, delta: view(payload, packing, scope, table) });
}

/** Byte offset and indices of each chunk in a top-k payload. */
interface IndexTable {
  readonly offsets: Uint32Array;
  /** Position of each chunk's first index in `indices`. */
  readonly firsts: Uint32Array;
  readonly indices: Uint16Array;
}

function createIndexTable({ kept }: ChunkPacking, size: number, chunks: Uint32Array): IndexTable {
  const firsts = new Uint32Array(chunks.length);
  let total = 0;
  for (let i = 0; i < chunks.length; i++) {
    firsts[i] = total;
    total += keptOf(kept, chunkLength(size, chunks[i]!));
  }
  return { offsets: new Uint32Array(chunks.length), firsts, indices: new Uint16Array(total) };
}

/** Checks every chunk and fills in the table; returns the end offset of the last chunk. */
function checkChunks(
  payload: Uint8Array,
  packing: ChunkPacking,
  { size, chunks }: PayloadScope,
  table: IndexTable | undefined,
): Result<number> {
  const code = codecs[packing.codec].values;
  let at = PAYLOAD_HEADER_BYTES;
  for (let position = 0; position < chunks.length; position++) {
    const chunk = chunks[position]!;
    const n = chunkLength(size, chunk);
    const k = table === undefined ? n : keptOf(packing.kept, n);
    const wrong = (why: string) => refuse(why, `chunks.${chunk}`, `chunk ${chunk}: ${why}`);
    const end = at + code.bytes(k);
    if (end > payload.length) return wrong('truncated');
    const flaw = code.flaw(payload, at, k);
    if (flaw !== undefined) return wrong(flaw);
    if (table === undefined) {
      at = end;
      continue;
    }
    table.offsets[position] = at;
    const counts = { n, k, r: riceParameter(n, k) };
    const read = readRice(payload, end, counts, table.indices, table.firsts[position]!);
    if (typeof read === 'string') return wrong(read);
    at = read;
  }
  return ok(at);
}

function view(
  payload: Uint8Array,
  packing: ChunkPacking,
  { size, chunks }: PayloadScope,
  table: IndexTable | undefined,
): PartialVector {
  const { values: code } = codecs[packing.codec];
  const stride = chunkBytesAtMost(packing, CHUNK_LENGTH);
  if (table === undefined) {
    return {
      size,
      chunks,
      addChunk(position, weight, target, at) {
        const n = chunkLength(size, chunks[position]!);
        code.add(payload, PAYLOAD_HEADER_BYTES + position * stride, n, weight, target, at);
      },
      weighChunk: weighAll(chunks, size),
    };
  }
  const { offsets, firsts, indices } = table;
  const few = new Float64Array(keptOf(packing.kept, CHUNK_LENGTH));
  return {
    size,
    chunks,
    addChunk(position, weight, target, at) {
      const k = keptOf(packing.kept, chunkLength(size, chunks[position]!));
      const first = firsts[position]!;
      few.fill(0);
      code.add(payload, offsets[position]!, k, weight, few, 0);
      for (let i = 0; i < k; i++) {
        const to = at + indices[first + i]!;
        target[to] = target[to]! + few[i]!;
      }
    },
    weighChunk(position, weight, target, at) {
      const k = keptOf(packing.kept, chunkLength(size, chunks[position]!));
      const first = firsts[position]!;
      for (let i = first; i < first + k; i++) {
        const to = at + indices[i]!;
        target[to] = target[to]! + weight;
      }
    },
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
