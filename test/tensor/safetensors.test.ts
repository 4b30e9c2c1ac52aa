import fc from 'fast-check';
import { utf8 } from 'nostrain/base';
import { describe, expect, it } from 'vitest';
import {
  decodeSafetensors,
  encodeSafetensors,
  type NamedTensor,
} from '../../src/tensor/safetensors.ts';

const vector = fc.oneof(fc.float32Array({ maxLength: 9 }), fc.float64Array({ maxLength: 9 }));
const name = fc
  .oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('0', '17', '__proto__', 'w', 'toString'))
  .filter((text) => text !== '__metadata__');
const file = fc.record({
  tensors: fc.uniqueArray(
    fc.tuple(name, vector).map(
      ([tensor, values]): NamedTensor => ({
        name: tensor,
        shape: values.length % 2 === 0 ? [2, values.length / 2] : [values.length],
        values,
      }),
    ),
    { selector: (tensor) => tensor.name, maxLength: 5 },
  ),
  metadata: fc.dictionary(name, fc.string({ unit: 'grapheme' })),
});

/** A file with this header and this many bytes of data. */
function withHeader(header: unknown, dataBytes: number): Uint8Array {
  const text = utf8(typeof header === 'string' ? header : JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  return bytes;
}

const codeOf = (bytes: Uint8Array) => {
  const decoded = decodeSafetensors(bytes);
  return decoded.ok ? 'ok' : decoded.issue.code;
};

const byName = (tensors: readonly NamedTensor[]) =>
  [...tensors].sort((a, b) => (a.name < b.name ? -1 : 1));

describe('safetensors', () => {
  it('come back as they were written', () => {
    fc.assert(
      fc.property(file, ({ tensors, metadata }) => {
        const decoded = decodeSafetensors(encodeSafetensors({ tensors, metadata }));
        if (!decoded.ok) throw new Error(decoded.issue.message);
        expect(byName(decoded.value.tensors)).toEqual(byName(tensors));
        expect(Object.entries(decoded.value.metadata)).toEqual(Object.entries(metadata));
      }),
    );
  });

  it('keep the order of tensors with values', () => {
    const tensors = ['b', '2', 'a', '1'].map((text, i) => ({
      name: text,
      shape: [1],
      values: Float32Array.of(i),
    }));
    const decoded = decodeSafetensors(encodeSafetensors({ tensors, metadata: {} }));
    expect(decoded).toEqual({ ok: true, value: { tensors, metadata: {} } });
  });

  it('are read from anywhere in a buffer, and from a Buffer, as copies', () => {
    const tensors = [{ name: 'w', shape: [3], values: Float64Array.of(1, -0, 3) }];
    const bytes = encodeSafetensors({ tensors, metadata: { a: 'b' } });
    const shifted = new Uint8Array(bytes.length + 3);
    shifted.set(bytes, 3);
    for (const same of [
      Buffer.from(bytes),
      Buffer.from(shifted).subarray(3),
      shifted.subarray(3),
    ]) {
      const decoded = decodeSafetensors(same);
      same.fill(0);
      expect(decoded).toEqual({ ok: true, value: { tensors, metadata: { a: 'b' } } });
    }
  });

  it('start their data at a multiple of 8', () => {
    fc.assert(
      fc.property(file, (written) => {
        const bytes = encodeSafetensors(written);
        const length = new DataView(bytes.buffer).getBigUint64(0, true);
        expect(Number(length) % 8).toBe(0);
      }),
    );
  });
});

describe('bytes from anywhere', () => {
  it('never make it throw', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => void codeOf(bytes)));
    fc.assert(
      fc.property(fc.json(), fc.nat(40), (json, size) => void codeOf(withHeader(json, size))),
    );
  });

  it('never make it throw, with headers that are nearly right', () => {
    const sizes = fc.array(fc.oneof(fc.nat(9), fc.maxSafeInteger(), fc.jsonValue()), {
      maxLength: 3,
    });
    const entry = fc.record(
      {
        dtype: fc.oneof(fc.constantFrom('F32', 'F64', 'BF16'), fc.jsonValue()),
        shape: fc.oneof(sizes, fc.jsonValue()),
        data_offsets: fc.oneof(fc.tuple(fc.nat(16), fc.nat(16)), sizes, fc.jsonValue()),
      },
      { requiredKeys: [] },
    );
    const header = fc.dictionary(
      fc.constantFrom('a', 'b', '__metadata__', '__proto__'),
      fc.oneof(entry, fc.jsonValue()),
    );
    fc.assert(
      fc.property(header, fc.nat(32), (json, size) => void codeOf(withHeader(json, size))),
      { numRuns: 500 },
    );
  });

  it('never make it throw, one byte changed', () => {
    const bytes = encodeSafetensors({
      tensors: [{ name: 'w', shape: [2], values: Float32Array.of(1, 2) }],
      metadata: { a: 'b' },
    });
    for (let at = 0; at < bytes.length; at++) {
      for (const flip of [1, 2, 4, 8, 16, 32, 64, 128, 255]) {
        const broken = bytes.slice();
        broken[at]! ^= flip;
        codeOf(broken);
      }
    }
  });

  it('cut short anywhere are refused, and so are bytes too many', () => {
    const tensors = [
      { name: 'w', shape: [2], values: Float32Array.of(1, 2) },
      { name: 'b', shape: [], values: Float64Array.of(3) },
    ];
    const bytes = encodeSafetensors({ tensors, metadata: { a: 'b' } });
    for (let size = 0; size < bytes.length; size++) {
      expect(codeOf(bytes.subarray(0, size))).toMatch(/^safetensors\//);
    }
    expect(codeOf(Buffer.concat([bytes, Buffer.alloc(1)]))).toBe('safetensors/offsets');
  });

  const entry = (from: number, to: number, shape = [(to - from) / 4]) => ({
    dtype: 'F32',
    shape,
    data_offsets: [from, to],
  });
  it.each([
    ['safetensors/header', [], 0],
    ['safetensors/header', 'nonsense', 0],
    ['safetensors/dtype', { a: null }, 0],
    ['safetensors/dtype', { a: { ...entry(0, 4), dtype: { toString: 1, valueOf: 1 } } }, 4],
    ['safetensors/dtype', { a: { ...entry(0, 4), dtype: 'F8_E4M3' } }, 4],
    ['safetensors/header', { a: { ...entry(0, 4), shape: 1 } }, 4],
    ['safetensors/header', { a: { ...entry(0, 4), shape: [-1] } }, 4],
    ['safetensors/header', { a: { ...entry(0, 4), data_offsets: [0, 4, 8] } }, 4],
    ['safetensors/offsets', { a: entry(0, 4, [2]) }, 4],
    ['safetensors/offsets', { a: entry(0, 4, [2 ** 52, 2 ** 52, 2 ** 52]) }, 4],
    ['safetensors/offsets', { a: entry(4, 0, []) }, 4],
    ['safetensors/offsets', { a: entry(0, 8) }, 4],
    ['safetensors/offsets', { a: entry(4, 8) }, 8],
    ['safetensors/offsets', { a: entry(0, 4), b: entry(0, 4) }, 4],
    ['safetensors/offsets', { a: entry(0, 4), b: entry(8, 12) }, 12],
    ['ok', { b: entry(4, 8), a: entry(0, 4), c: entry(4, 4) }, 8],
    ['ok', {}, 0],
  ])('%s: %j over %d bytes', (code, header, size) => {
    expect(codeOf(withHeader(header, size))).toBe(code);
  });

  it('with a header longer than any of ours are not read', () => {
    const bytes = new Uint8Array(64);
    new DataView(bytes.buffer).setBigUint64(0, 2n ** 63n, true);
    expect(codeOf(bytes)).toBe('safetensors/truncated');
  });
});
