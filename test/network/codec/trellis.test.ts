/** The trellis code: its bits are those of another program, and each chunk is unbiased by itself. */
import { createHash } from 'node:crypto';
import { fromHex, toHex } from 'nostrain/base';
import { createPacker, decodePayload, encodePayload, packingFor } from 'nostrain/network';
import { addPartial, CHUNK_LENGTH, createLayout } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { searchBits } from '../../../src/network/codec/viterbi.ts';
import { drawnDelta, scopeOf } from '../../support/drawn-delta.ts';
import { drawn } from '../../support/payload-vectors.ts';
import { searchPlainly } from '../../support/trellis-oracle.ts';
import { readVectors, valuesOf } from '../../support/vectors.ts';

interface Vector {
  readonly name: string;
  readonly kept: number;
  readonly round: number;
}
interface Small extends Vector {
  readonly delta: readonly number[];
  readonly payload: string;
  readonly decoded: readonly number[];
}
interface Large extends Vector {
  readonly size: number;
  readonly seed: number;
  readonly chunks: readonly number[];
  readonly bytes: number;
  readonly payloadSha256: string;
  readonly decodedSha256: string;
}
const vectors = readVectors<{
  run: string;
  roster: string;
  sender: string;
  small: readonly Small[];
  large: readonly Large[];
}>('trellis.json');
const codec = 'trellis';
const scopeFor = (round: number, size: number, chunks: readonly number[]) => ({
  run: fromHex(vectors.run)!,
  roster: fromHex(vectors.roster)!,
  sender: fromHex(vectors.sender)!,
  round,
  size,
  chunks: Uint32Array.from(chunks),
});
const hashOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
/** Values without the sign of zeros. */
const unsigned = (values: Float64Array) => values.map((value) => value + 0);
const product = (a: Float64Array, b: Float64Array) =>
  a.reduce((sum, value, i) => sum + value * b[i]!, 0);

describe('payloads of another program', () => {
  test.each(vectors.small)('$name', ({ kept, round, delta, payload, decoded }) => {
    const scope = scopeFor(round, delta.length, [0]);
    const encoded = encodePayload(Float64Array.from(delta), { codec, kept }, scope);
    expect(toHex(encoded.payload)).toBe(payload);
    const read = decodePayload(fromHex(payload)!, scope);
    expect(read.ok && [...unsigned(valuesOf(read.value.delta))]).toEqual(decoded);
  });

  test.each(vectors.large)('$name', ({ kept, round, size, seed, chunks, ...expected }) => {
    const scope = scopeFor(round, size, chunks);
    const { payload } = encodePayload(drawn(size, seed), { codec, kept }, scope);
    expect(payload).toHaveLength(expected.bytes);
    expect(hashOf(payload)).toBe(expected.payloadSha256);
    const read = decodePayload(payload, scope);
    if (!read.ok) throw new Error(read.issue.message);
    const values = unsigned(valuesOf(read.value.delta));
    expect(hashOf(new Uint8Array(values.buffer))).toBe(expected.decodedSha256);
  });
});

test('the WebAssembly finds the bits of the plain search, at any rate and length', () => {
  for (const count of [1, 2, 3, 8, 61, 256]) {
    for (const bits of [1, 5, 8, 24, 57, 2 * count]) {
      const delta = drawnDelta(count, bits);
      const values = Int16Array.from(delta, (value) => value * 2 ** 16);
      expect(toHex(searchBits(values, bits))).toBe(toHex(searchPlainly(values, bits)));
    }
  }
});

test('the WebAssembly does not overflow where all of a chunk is in a few values', () => {
  for (const peaks of [1, 3, 17]) {
    const values = new Int16Array(512).fill(32_767, 300, 300 + peaks);
    expect(toHex(searchBits(values, 32))).toBe(toHex(searchPlainly(values, 32)));
  }
});

describe('what receivers decode', () => {
  const read = (delta: Float64Array, kept: number, sender = 9) => {
    const scope = { ...scopeOf(delta.length), sender: new Uint8Array(32).fill(sender) };
    const sum = new Float64Array(delta.length);
    addPartial(sum, encodePayload(delta, { codec, kept }, scope).sent, 1);
    return sum;
  };

  test.each([1, 19, 64, 256, 1024])('is unbiased in each chunk at %d bytes', (kept) => {
    const delta = drawnDelta(6 * CHUNK_LENGTH + 700);
    const decoded = read(delta, kept);
    for (let at = 0; at < delta.length; at += CHUNK_LENGTH) {
      const part = delta.subarray(at, at + CHUNK_LENGTH);
      const share = product(part, decoded.subarray(at, at + CHUNK_LENGTH)) / product(part, part);
      expect(share).toBeGreaterThan(0.996);
      expect(share).toBeLessThan(1.004);
    }
  });

  test.each([1, 2, 3])('keeps chunks with %d values that are not zero', (count) => {
    const delta = new Float64Array(2 * CHUNK_LENGTH);
    for (let i = 0; i < count; i++) delta[CHUNK_LENGTH + 1000 * i] = 2 - i / 2;
    for (const kept of [1, 19, 256]) {
      const decoded = read(delta, kept);
      expect(product(decoded, delta) / product(delta, delta)).toBeCloseTo(1, 2);
      expect(product(decoded.subarray(0, CHUNK_LENGTH), decoded)).toBe(0);
    }
  });

  test.each([
    [1024, 0.09],
    [512, 0.42],
    [256, 1.2],
    [128, 2.9],
    [19, 24],
  ])('at %d bytes a chunk has at most %d of noise', (kept, most) => {
    const delta = drawnDelta(20 * CHUNK_LENGTH);
    const off = read(delta, kept).map((value, i) => value - delta[i]!);
    expect(product(off, off) / product(delta, delta)).toBeLessThan(most);
  });

  test('of many senders comes closer and closer to the delta, small values like large ones', () => {
    const delta = drawnDelta(CHUNK_LENGTH).map((value, i) => (i % 50 === 0 ? value : value / 100));
    const mean = new Float64Array(delta.length);
    const senders = 64;
    for (let sender = 0; sender < senders; sender++)
      read(delta, 256, sender).forEach((value, i) => {
        mean[i] = mean[i]! + value / senders;
      });
    const off = mean.map((value, i) => value - delta[i]!);
    expect(product(off, off) / product(delta, delta)).toBeLessThan(1.3 / senders);
    const small = delta.map((value, i) => (i % 50 === 0 ? 0 : value));
    expect(product(mean, small) / product(small, small)).toBeCloseTo(1, 0);
  });
});

describe('a payload of the right length', () => {
  const size = CHUNK_LENGTH + 20;
  const scope = scopeOf(size);
  const { payload } = encodePayload(drawnDelta(size), { codec, kept: 100 }, scope);
  const judged = (change: (bytes: Uint8Array) => void) => {
    const bytes = payload.slice();
    change(bytes);
    const read = decodePayload(bytes, scope);
    return read.ok ? valuesOf(read.value.delta) : read.issue.code;
  };

  test('decodes to finite f32, whatever its codes and up to the largest scale', () => {
    for (const byte of [0, 0x55, 0xff]) {
      const values = judged((bytes) => {
        bytes.fill(byte, 86, 186);
        bytes.set([0x80, 0x77], 84);
      });
      if (typeof values === 'string') throw new Error(values);
      expect(Float32Array.from(values).every(Number.isFinite)).toBe(true);
    }
  });

  test.each([
    ['a scale above the largest', 84, [0x81, 0x77], 'bad-level'],
    ['a scale that is infinite', 84, [0x80, 0x7f], 'bad-level'],
    ['a scale that is no number', 84, [0xc0, 0x7f], 'bad-level'],
    ['a negative scale', 84, [0x80, 0xbf], 'bad-level'],
    ['a scale that is not normal', 84, [0x7f, 0], 'bad-level'],
    ['codes of a chunk without a scale', 84, [0, 0], 'bad-value'],
    ['another rate', 6, [101, 0], 'truncated'],
    ['a lower rate', 6, [99, 0], 'trailing-bytes'],
    ['a rate of nothing', 6, [0, 0], 'unsupported-codec'],
    ['more than two bits a value', 6, [1, 4], 'unsupported-codec'],
    ['another roster', 60, [1], 'other-roster'],
  ])('is refused with %s', (_, at, values, code) => {
    expect(judged((bytes) => bytes.set(values, at))).toBe(code);
  });
});

describe('a packer', () => {
  const layout = createLayout([{ name: 'a', shape: [834_048] }]);
  const options = { run: 'r', layout, packing: codec } as const;

  test('uses the budget to the last byte that every chunk can have', () => {
    for (const eventBudget of [4096, 20_000, 65_536, 200_000]) {
      const { kept } = packingFor({ ...options, eventBudget }, { most: 204 });
      const payload = (perChunk: number) => 84 + 204 * (2 + perChunk);
      expect(payload(kept)).toBeLessThan(eventBudget);
      expect(payload(kept + 1)).toBeGreaterThan(0.7 * (eventBudget - 3000));
    }
    expect(packingFor(options, { most: 4 })).toEqual({ codec, kept: 1024 });
  });

  test('refuses a budget of less than a byte for each chunk, and says what to do', () => {
    const few = { ...options, eventBudget: 2048 };
    expect(() => packingFor(few, { most: 204 })).toThrow(/too few for 204 chunks/);
  });

  test('packs like another one', () => {
    const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest();
    const packer = createPacker({ ...options, sha256 });
    const chunks = Uint32Array.of(3, 5);
    const assignment = { most: 204, digest: undefined, chunksOf: () => chunks };
    const context = { round: 1, worker: 'ab'.repeat(32), assignment } as never;
    const delta = drawnDelta(layout.size);
    const { payload, codec: name } = packer.pack(delta, context);
    expect(name).toMatch(/^trellis-\d+$/);
    expect(packer.packLike(payload, delta, context)).toEqual(payload);
    expect(packer.open(payload, name, context)).toMatchObject({ ok: true });
  });
});
