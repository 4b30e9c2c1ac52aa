import { CHUNK_LENGTH } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { decodePayload, encodePayload } from '../../../src/network/codec/payload.ts';
import { testCodec } from '../../contract/codec.ts';
import { drawnDelta, scopeOf } from '../../support/drawn-delta.ts';
import { valuesOf } from '../../support/vectors.ts';

testCodec({ codec: 'int8', kept: 0 });
testCodec({ codec: 'trellis', kept: 1024 });

describe('a header that is not the one expected', () => {
  const size = 2 * CHUNK_LENGTH + 1;
  const scope = scopeOf(size, [0, 2]);
  const { payload } = encodePayload(drawnDelta(size), { codec: 'int8', kept: 0 }, scope);
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
    ['int8 with a rate', 6, [1, 0], 'unsupported-codec'],
    ['a trellis code of 0 bytes', 5, [36, 0, 0], 'unsupported-codec'],
    ['a trellis code of 1025 bytes', 5, [36, 1, 4], 'unsupported-codec'],
    ['a trellis code of 65535 bytes', 5, [36, 255, 255], 'unsupported-codec'],
    ['another round', 8, [6], 'wrong-round'],
    ['2^32 - 1 parameters', 12, [255, 255, 255, 255], 'wrong-shape'],
    ['2^32 - 1 chunks', 16, [255, 255, 255, 255], 'wrong-shape'],
    ['another run', 51, [1], 'other-run'],
    ['another roster', 83, [1], 'other-roster'],
    ['a shorter code', 5, [36, 1, 0], 'trailing-bytes'],
    ['a codec of nostrain 0.1.0', 5, [4], 'unsupported-codec'],
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
  const flawOf = (...body: number[]) => {
    const scope = scopeOf(5);
    const packing = { codec: 'int8', kept: 0 } as const;
    const head = encodePayload(new Float64Array(5), packing, scope).payload.subarray(0, 84);
    const result = decodePayload(Uint8Array.of(...head, ...body), scope);
    return result.ok ? [...valuesOf(result.value.delta)] : result.issue.code;
  };
  const one = [0x80, 0x3f];
  const zero = [0, 0];
  const cases: [string, number[], number[] | string][] = [
    ['fine', [...one, 127, 0, 129, 1, 2], [127, 0, -127, 1, 2]],
    ['-128', [...one, 127, 128, 0, 0, 0], 'bad-value'],
    ['no largest code', [...one, 126, 0, 0, 0, 0], 'bad-level'],
    ['level 0 with a code', [...zero, 127, 0, 0, 0, 0], 'bad-level'],
  ];
  test.each(cases)('%s', (_, body, says) => {
    expect(flawOf(...body)).toEqual(says);
  });
});
