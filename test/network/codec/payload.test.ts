import fc from 'fast-check';
import { type CodecName, codecs } from 'nostrain/network';
import { CHUNK_LENGTH } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { createSelectionBuffers, selectInChunk } from '../../../src/network/codec/largest.ts';
import { decodePayload, encodePayload } from '../../../src/network/codec/payload.ts';
import { addUp, chunkValues } from '../../../src/network/codec/value-code.ts';
import { selectLargest } from '../../../src/python/codec/nstr.ts';
import { testCodec } from '../../contract/codec.ts';
import { drawnDelta, scopeOf } from '../../support/drawn-delta.ts';
import { valuesOf } from '../../support/vectors.ts';

for (const codec of Object.keys(codecs) as CodecName[]) {
  const kept = { largest: [1, 300, 4000], bits: [1024], all: [0] }[codecs[codec].sends];
  for (const k of kept) testCodec({ codec, kept: k });
}

describe('a header that is not the one expected', () => {
  const size = 2 * CHUNK_LENGTH + 1;
  const scope = scopeOf(size, [0, 2]);
  const { payload } = encodePayload(drawnDelta(size), { codec: 'q2', kept: 0 }, scope);
  const codeWith = (at: number, ...bytes: number[]) => {
    const other = payload.slice();
    other.set(bytes, at);
    const result = decodePayload(other, scope);
    return result.ok ? 'ok' : result.issue.code;
  };
  const cases: [string, number, number[], string][] = [
    ['nothing changed', 4, [1], 'ok'],
    ['another magic', 0, [0x4f], 'bad-payload'],
    ['another version', 4, [2], 'unsupported-version'],
    ['codec 0', 5, [0], 'unsupported-codec'],
    ['codec 255', 5, [255], 'unsupported-codec'],
    ['a dense codec that keeps 1', 6, [1, 0], 'unsupported-codec'],
    ['a top-k codec that keeps 0', 5, [21, 0, 0], 'unsupported-codec'],
    ['a top-k codec that keeps 4096', 5, [21, 0, 16], 'unsupported-codec'],
    ['a top-k codec that keeps 65535', 5, [21, 255, 255], 'unsupported-codec'],
    ['another round', 8, [6], 'wrong-round'],
    ['2^32 - 1 parameters', 12, [255, 255, 255, 255], 'wrong-shape'],
    ['2^32 - 1 chunks', 16, [255, 255, 255, 255], 'wrong-shape'],
    ['another run', 51, [1], 'other-run'],
    ['another roster', 83, [1], 'other-roster'],
    ['another dense codec', 5, [1], 'truncated'],
    ['a shorter dense codec', 5, [4], 'bad-value'],
    ['a codec of nostrain 0.1.0', 5, [5], 'unsupported-codec'],
  ];
  test.each(cases)('%s', (_, at, bytes, code) => {
    expect(codeWith(at, ...bytes)).toBe(code);
  });

  test('chunks of another owner are refused if their number differs', () => {
    expect(decodePayload(payload, scopeOf(size, [0, 1, 2]))).toMatchObject({ ok: false });
  });
});

describe('chunks with two spellings', () => {
  /** One chunk of five values with these bytes. */
  const flawOf = (codec: CodecName, ...body: number[]) => {
    const scope = scopeOf(5);
    const packing = { codec, kept: codecs[codec].sends === 'largest' ? 1640 : 0 };
    const head = encodePayload(new Float64Array(5), packing, scope).payload.subarray(0, 84);
    const result = decodePayload(Uint8Array.of(...head, ...body), scope);
    return result.ok ? [...valuesOf(result.value.delta)] : result.issue.code;
  };
  const one = [0x80, 0x3f];
  const two = [0x00, 0x40];
  const zero = [0, 0];
  const cases: [CodecName, string, number[], number[] | string][] = [
    ['int8', 'fine', [...one, 127, 0, 129, 1, 2], [127, 0, -127, 1, 2]],
    ['int8', '-128', [...one, 127, 128, 0, 0, 0], 'bad-value'],
    ['int8', 'no largest code', [...one, 126, 0, 0, 0, 0], 'bad-level'],
    ['int8', 'level 0 with a code', [...zero, 127, 0, 0, 0, 0], 'bad-level'],
    ['int4', 'fine', [...one, 0x97, 0x10, 0x0f], [7, -7, 0, 1, -1]],
    ['int4', '-8', [...one, 0x87, 0, 0], 'bad-value'],
    ['int4', 'padding', [...one, 7, 0, 0x10], 'bad-padding'],
    ['int4', 'no largest code', [...one, 6, 0, 0], 'bad-level'],
    ['q2', 'fine', [...one, ...two, 0b11100100, 1], [1, -1, 2, -2, -1]],
    ['q2', 'levels the wrong way round', [...two, ...one, 0b11100100, 1], 'bad-level'],
    ['q2', 'no low value', [...one, ...two, 0xaa, 2], 'bad-level'],
    ['q2', 'no high value', [...one, ...two, 0, 0], 'bad-level'],
    ['q2', 'one level, said as the upper one', [...one, ...one, 2, 0], 'bad-level'],
    ['q2', 'one level', [...one, ...one, 1, 0], [-1, 1, 1, 1, 1]],
    ['q2', 'minus zero', [...zero, ...one, 0b0110, 0], 'bad-value'],
    ['q2', 'zero as the lower level', [...zero, ...one, 0b1011, 0], [-1, 1, 0, 0, 0]],
    ['q2', 'padding', [...one, ...two, 2, 4], 'bad-padding'],
    ['ternary', 'fine', [...one, 1 + 2 * 3 + 81], [1, -1, 0, 0, 1]],
    ['ternary', 'no base-3 digits', [...one, 243], 'bad-value'],
    ['ternary', 'a level that no value takes', [...one, 0], 'bad-level'],
    ['ternary', 'level 0 with a digit', [...zero, 1], 'bad-level'],
    ['topk-sign', 'minus zero', [...zero, 0b01, 0b01101], 'bad-value'],
    ['topk-sign', 'padding of signs', [...one, 0b100, 0b01101], 'bad-padding'],
    ['topk-sign', 'fine: two of five, gaps 1 and 2', [...one, 0b01, 0b01101], [0, -1, 0, 0, 1]],
    ['topk-sign', 'padding', [...one, 0b01, 0b101101], 'bad-padding'],
    ['topk-sign', 'an index out of range', [...one, 0b01, 0b011111], 'bad-index'],
    ['topk-sign', 'ones without end', [...one, 0b01, 255], 'bad-index'],
    ['topk-sign', 'no indices', [...one, 0b01], 'truncated'],
  ];
  test.each(cases)('%s: %s', (codec, _, body, says) => {
    expect(flawOf(codec, ...body)).toEqual(says);
  });
});

test('selects what the select over a whole vector selects', () => {
  const tied = fc.constantFrom(0, -0, 1, -1, 0.5, -0.5, 1e-45, 3e38, 1 + 2 ** -23);
  const value = fc.oneof(tied, fc.float({ noNaN: true, noDefaultInfinity: true }));
  const buffers = createSelectionBuffers();
  fc.assert(
    fc.property(fc.array(value, { minLength: 1, maxLength: 200 }), fc.nat(), (list, pick) => {
      const values = chunkValues(200);
      values.floats.set(list);
      addUp(values, list.length);
      const k = 1 + (pick % list.length);
      const indices = new Uint16Array(200);
      selectInChunk(values, list.length, k, buffers, indices);
      const expected = selectLargest(Float32Array.from(list), k);
      expect([...indices.subarray(0, k)]).toEqual([...expected]);
    }),
    { numRuns: 1000 },
  );
});
