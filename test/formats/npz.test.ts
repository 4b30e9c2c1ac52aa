import fc from 'fast-check';
import { utf8 } from 'nostrain/base';
import { encodeZip } from 'nostrain/formats';
import { createLayout } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import {
  decodeNpy,
  decodeNpyText,
  decodeNpz,
  encodeNpy,
  encodeNpyText,
  encodeNpz,
} from '../../src/formats/numpy.ts';

/** A .npy file with any header. */
function npy(header: string, data: readonly number[], version = 1): Uint8Array {
  const length = [header.length & 255, header.length >> 8, ...(version === 1 ? [] : [0, 0])];
  return Uint8Array.of(0x93, ...utf8('NUMPY'), version, 0, ...length, ...utf8(header), ...data);
}
const header = (type: string, shape: string, order = 'False') =>
  `{'descr': '${type}', 'fortran_order': ${order}, 'shape': (${shape}), }\n`;
const codeOf = (result: ReturnType<typeof decodeNpy | typeof decodeNpyText | typeof decodeNpz>) =>
  result.ok ? 'ok' : result.issue.code;

describe('numbers of every type', () => {
  it.each([
    ['<f2', [0x00, 0xc0], -2],
    ['<f2', [0x01, 0x00], 2 ** -24],
    ['<f2', [0xff, 0x7b], 65504],
    ['<f2', [0x00, 0x80], -0],
    ['>f4', [0x3f, 0x80, 0, 0], 1],
    ['<f8', [0, 0, 0, 0, 0, 0, 0xf0, 0x3f], 1],
    ['=f8', [0, 0, 0, 0, 0, 0, 0xf0, 0x3f], 1],
    ['|i1', [0xff], -1],
    ['>i2', [0xff, 0xfe], -2],
    ['<i4', [0xfe, 0xff, 0xff, 0xff], -2],
    ['<i8', [0xfd, 255, 255, 255, 255, 255, 255, 255], -3],
    ['|u1', [0xff], 255],
    ['<u2', [0xff, 0xff], 65535],
    ['<u4', [255, 255, 255, 255], 2 ** 32 - 1],
    ['>u8', [0, 0, 0, 0, 0, 0, 1, 0], 256],
    ['|b1', [7], 1],
  ])('%s of %j is %d', (type, data, value) => {
    const decoded = decodeNpy(npy(header(type, ''), data));
    expect(decoded).toEqual({ ok: true, value: { shape: [], values: Float64Array.of(value) } });
  });

  it('are transposed if they are stored by columns', () => {
    const file = npy(header('|u1', '2, 3', 'True'), [1, 2, 3, 4, 5, 6]);
    const decoded = decodeNpy(file);
    expect(decoded.ok && [...decoded.value.values]).toEqual([1, 3, 5, 2, 4, 6]);
  });

  it('come back as they were written', () => {
    const values = Float64Array.of(-0, 5e-324, Number.MAX_VALUE, 0.1, 1, 2);
    for (const shape of [[6], [2, 3], [6, 1, 1]]) {
      const file = encodeNpy({ shape, values });
      expect(file.length % 64).toBe(48);
      expect(decodeNpy(file)).toEqual({ ok: true, value: { shape, values } });
    }
    expect(decodeNpyText(encodeNpyText('é\u{1f600}'))).toEqual({ ok: true, value: 'é\u{1f600}' });
  });
});

describe('arrays that are refused', () => {
  it.each([
    ['npy/type', npy(header('|O', '1'), [1])],
    ['npy/type', npy(header('<c16', '1'), [])],
    ['npy/type', npy(header('<f16', '1'), [])],
    ['npy/type', npy(header('!f8', '1'), [])],
    ['npy/type', npy(header('<constructor', '1'), [])],
    ['npy/header', npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", [])],
    ['npy/header', npy(header('<f8', '1', 'Maybe'), [])],
    ['npy/header', npy(header('<f8', '-1'), [])],
    ['npy/header', npy(header('<f8', '1'), [], 9)],
    ['npy/header', npy(header('<f8', '1'), []).subarray(0, 30)],
    ['npy/header', utf8('not a npy file at all')],
    ['npy/size', npy(header('<f8', '2'), [0, 0, 0, 0, 0, 0, 0, 0])],
    ['npy/size', npy(header('<f8', '99999999999999999999, 99999999999'), [])],
    ['npy/size', npy(header('<f8', `${'9'.repeat(400)}, 0`), [])],
  ])('%s', (code, file) => {
    expect(codeOf(decodeNpy(file))).toBe(code);
  });

  it.each([
    npy(header('<U2', '2'), [65, 0, 0, 0, 66, 0, 0, 0]),
    npy(header('<U2', ''), [65, 0, 0, 0]),
    npy(header('<U9999', ''), []),
    npy(header('<f8', ''), [0, 0, 0, 0, 0, 0, 0, 0]),
  ])('no text: case %#', (file) => {
    expect(codeOf(decodeNpyText(file))).toBe('npy/type');
  });
});

const layout = createLayout([
  { name: 'b', shape: [2] },
  { name: 'a', shape: [] },
]);
const params = { layout, values: Float64Array.of(1, 2, 3) };

describe('archives', () => {
  it('are sorted by name on reading and carry a runtime', () => {
    const file = encodeNpz({ params, runtime: 'mine' }, 'nostrain-model-state');
    const decoded = decodeNpz(file, 'nostrain-model-state');
    expect(decoded.ok && decoded.value.runtime).toBe('mine');
    expect(decoded.ok && [...decoded.value.params.values]).toEqual([3, 1, 2]);
  });

  it('without a schema may be of either', () => {
    const file = encodeZip([{ name: 'w.npy', bytes: npy(header('|u1', '1,'), [7]) }]);
    for (const schema of ['nostrain-model-state', 'nostrain-pytorch-state-dict'] as const) {
      expect(codeOf(decodeNpz(file, schema))).toBe('ok');
    }
  });

  it.each([
    ['npz/member', 'w.txt', npy(header('|u1', '1,'), [7])],
    ['npy/header', 'w.npy', utf8('nothing')],
    ['npy/type', '__nostrain_runtime__.npy', npy(header('|u1', '1,'), [7])],
    ['npz/schema', '__nostrain_schema__.npy', encodeNpyText('another')],
    ['state/empty', '__nostrain_version__.npy', encodeNpyText('1')],
    ['state/name', '.npy', npy(header('|u1', '1,'), [7])],
    ['state/value', 'w.npy', npy(header('<f2', '1,'), [0, 0x7c])],
    ['state/value', 'w.npy', npy(header('<f2', '1,'), [1, 0x7c])],
    ['state/shape', 'w.npy', npy(header('|u1', '4294967296, 0'), [])],
  ])('%s: %s', (code, name, bytes) => {
    const file = encodeZip([{ name, bytes }]);
    expect(codeOf(decodeNpz(file, 'nostrain-model-state'))).toBe(code);
  });

  it('never make it throw, whatever byte is changed', () => {
    const file = encodeNpz({ params, runtime: 'mine' }, 'nostrain-model-state');
    fc.assert(
      fc.property(fc.nat(file.length - 1), fc.nat(255), (at, byte) => {
        const other = file.slice();
        other[at] = byte;
        decodeNpz(other, 'nostrain-model-state');
      }),
      { numRuns: 3000 },
    );
  });
});
