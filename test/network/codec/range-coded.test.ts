import { fromHex, NostrainError, toHex } from 'nostrain/base';
import {
  choosePacking,
  decodePayload,
  encodePayload,
  PAYLOAD_HEADER_BYTES,
  type Packing,
  packingFor,
} from 'nostrain/network';
import { addPartial, CHUNK_LENGTH } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { levelsOf, readCoded } from '../../../src/network/codec/range-coded.ts';
import { MOST_CODE } from '../../../src/network/codec/range-coder.ts';
import { readStream, streamView } from '../../../src/network/codec/stream.ts';
import { chunkLength } from '../../../src/tensor/partial-vector.ts';
import { drawnDelta, scopeOf } from '../../support/drawn-delta.ts';
import { readVectors } from '../../support/vectors.ts';

interface Vector {
  readonly name: string;
  readonly body: string;
  readonly decoded: readonly number[];
}
const { vectors } = readVectors<{ vectors: readonly Vector[] }>('range.json');

test.each(vectors)('a coder without carries writes the same stream: $name', (vector) => {
  const body = fromHex(vector.body)!;
  const read = readCoded(body, 0, vector.decoded.length);
  if (!read.ok) throw new Error(read.issue.message);
  const levels = levelsOf(read.value);
  expect(Array.from(read.value.codes, (code) => levels[code + MOST_CODE]! + 0)).toEqual(
    vector.decoded,
  );
  expect(read.value.end).toBe(body.length);
  // every other ending is refused
  const other = body.slice();
  other[body.length - 1] = other[body.length - 1]! ^ 1;
  expect(readCoded(other, 0, vector.decoded.length).ok).toBe(false);
});

const scaled = readVectors<{ vectors: readonly Vector[] }>('scaled.json').vectors;

test.each(scaled)('scales of chunks, by another program: $name', ({ body, decoded }) => {
  const bytes = fromHex(body)!;
  const read = readStream(bytes, 0, decoded.length);
  if (!read.ok) throw new Error(read.issue.message);
  const chunks = Uint32Array.from(
    { length: Math.ceil(decoded.length / CHUNK_LENGTH) },
    (_, i) => i,
  );
  const lengths = Array.from(chunks, (chunk) => chunkLength(decoded.length, chunk));
  const view = streamView(read.value, lengths);
  const sum = new Float64Array(decoded.length);
  for (const chunk of chunks) view.addChunk(chunk, 1, sum, chunk * CHUNK_LENGTH);
  expect([...sum]).toEqual(decoded);
  expect(read.value.end).toBe(bytes.length);
});

test.each([
  ['no scale of about 1', 'one chunk', 247],
  ['a scale of a chunk without values', 'a chunk without values', 1],
  ['a scale of nothing', 'nothing', 248],
])('refused: %s', (_, name, byte) => {
  const { body, decoded } = scaled.find((vector) => vector.name === name)!;
  const bytes = fromHex(body)!;
  bytes[0] = byte;
  expect(readStream(bytes, 0, decoded.length)).toMatchObject({
    ok: false,
    issue: { code: 'bad-level' },
  });
});

describe('a chunk whose values are small', () => {
  const delta = drawnDelta(8 * CHUNK_LENGTH);
  for (let i = 0; i < CHUNK_LENGTH; i++) delta[i]! *= 0.1;
  const kept = (maxBytes: number): number => {
    const scope = scopeOf(delta.length);
    const { sent } = encodePayload(delta, { codec: 'scaled', kept: 0, maxBytes }, scope);
    const sum = new Float64Array(delta.length);
    addPartial(sum, sent, 1);
    return sum.subarray(0, CHUNK_LENGTH).filter((value) => value !== 0).length;
  };

  test('is not rounded away', () => {
    expect(kept(12_000)).toBeGreaterThan(0);
  });

  test('what is said is what is read, even when the largest chunk sends nothing', () => {
    const peaks = new Float64Array(3 * CHUNK_LENGTH).fill(1);
    peaks.fill(0, CHUNK_LENGTH);
    for (let i = 1; i < 40; i++) peaks[2 * CHUNK_LENGTH + 77 * i] = i / 20;
    for (const maxBytes of [110, 130, 160, 200, 400]) {
      const scope = scopeOf(peaks.length);
      const { payload, sent } = encodePayload(peaks, { codec: 'scaled', kept: 0, maxBytes }, scope);
      const read = decodePayload(payload, scope);
      if (!read.ok) throw new Error(read.issue.message);
      const [said, heard] = [new Float64Array(peaks.length), new Float64Array(peaks.length)];
      addPartial(said, sent, 1);
      addPartial(heard, read.value.delta, 1);
      expect(heard).toEqual(said);
    }
  });
});

const left = (delta: Float64Array, packing: Packing): { bytes: number; energy: number } => {
  const { payload, sent } = encodePayload(delta, packing, scopeOf(delta.length));
  const residual = delta.slice();
  addPartial(residual, sent, -1);
  const sum = (vector: Float64Array) => vector.reduce((all, value) => all + value * value, 0);
  return { bytes: payload.length, energy: sum(residual) / sum(delta) };
};

describe('scaled in a budget', () => {
  const codec = 'scaled';
  const delta = drawnDelta(24 * CHUNK_LENGTH);

  test.each([1000, 4000, 12_000, 20_000, 40_000, 80_000])(
    'of %d bytes it is full, and leaves less than any other codec that fits',
    (maxBytes) => {
      const range = left(delta, { codec, kept: 0, maxBytes });
      expect(range.bytes).toBeLessThanOrEqual(maxBytes);
      expect(range.bytes).toBeGreaterThan(0.97 * maxBytes);
      const other = left(delta, choosePacking(maxBytes, 24));
      expect(range.energy).toBeLessThan(other.energy);
    },
  );

  test('no budget is too small for an end, and one for nothing is refused', () => {
    const least = PAYLOAD_HEADER_BYTES + 24 + 4;
    for (const maxBytes of [least, least + 5, 150]) {
      const { bytes, energy } = left(delta, { codec, kept: 0, maxBytes });
      expect(bytes).toBeLessThanOrEqual(maxBytes);
      expect(energy).toBeLessThanOrEqual(1);
    }
    const few = { run: 'r', packing: codec, ratio: 1, eventBudget: 2048 } as const;
    expect(() => packingFor(few, { most: 1 })).toThrow(NostrainError);
  });

  test('values of one size, one large value among small ones, and few values', () => {
    const one = new Float64Array(CHUNK_LENGTH).fill(1e-3);
    one[77] = 1e4;
    for (const values of [new Float64Array(CHUNK_LENGTH).fill(0.25), one, one.slice(70, 80)]) {
      for (const maxBytes of [200, 1000, 30_000]) {
        const packing = { codec, kept: 0, maxBytes } as const;
        const scope = scopeOf(values.length);
        const { payload } = encodePayload(values, packing, scope);
        expect(payload.length).toBeLessThanOrEqual(maxBytes);
        expect(decodePayload(payload, scope).ok).toBe(true);
      }
    }
  });
});

test('levels that no value takes are refused', () => {
  const { body, decoded } = vectors[0]!;
  expect(body.slice(4, 8)).toBe('0000');
  const unused = fromHex(`${body.slice(0, 4)}803f${body.slice(8)}`)!;
  expect(readCoded(unused, 0, decoded.length)).toMatchObject({
    ok: false,
    issue: { code: 'bad-level' },
  });
  expect(readCoded(fromHex('0000803f')!, 0, 5)).toMatchObject({ issue: { code: 'bad-level' } });
  expect(readCoded(fromHex('00000000')!, 0, 5)).toMatchObject({ ok: true, value: { end: 4 } });
  expect(toHex(fromHex(body)!)).toBe(body);
});
