import fc from 'fast-check';
import { toBase64, utf8 } from 'nostrain/base';
import { encodeZip } from 'nostrain/formats';
import { decodeTorchState, encodeTorchState } from 'nostrain/python';
import { createLayout } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { decodeTorch, readTorchTensor, TorchTensor } from '../../src/formats/torch-file.ts';
import { encodeTorch, stateDictOf } from '../../src/formats/torch-pickle.ts';
import { findStateDicts, readStateDict } from '../../src/formats/torch-state.ts';
import { opcodes, storage, tensor, text, torchFile } from '../python/support/pickles.ts';

const floats = new Uint8Array(Float32Array.of(1, 2, 3, 4, 5, 6).buffer);
const read = (pickle: string, storages: readonly Uint8Array[] = [floats]) =>
  decodeTorch(torchFile(opcodes(0x80, 2, pickle), storages));
const float = storage('FloatStorage', '0');

/** The numbers of a dict with one tensor. */
function numbersOf(pickle: string, storages?: readonly Uint8Array[]): readonly number[] | string {
  const decoded = read(pickle, storages);
  if (!decoded.ok) return `${decoded.issue.code}: ${decoded.issue.message}`;
  return decoded.value instanceof TorchTensor ? [...readTorchTensor(decoded.value)] : 'no tensor';
}

describe('tensors', () => {
  it.each([
    ['rows', tensor(float, 0, [2, 3], [3, 1]), [1, 2, 3, 4, 5, 6]],
    ['transposed', tensor(float, 0, [3, 2], [1, 3]), [1, 4, 2, 5, 3, 6]],
    ['a range', tensor(float, 2, [2], [2]), [3, 5]],
    ['a scalar', tensor(float, 5, [], []), [6]],
    ['none', tensor(float, 6, [0, 3], [3, 1]), []],
    ['bytes', tensor(storage('ByteStorage', '0'), 0, [2], [1]), [0, 0]],
    ['halves', tensor(storage('HalfStorage', '0'), 1, [1], [1]), [1.875]],
    ['brain floats', tensor(storage('BFloat16Storage', '0'), 1, [1], [1]), [1]],
  ])('%s', (_, pickle, expected) => {
    expect(numbersOf(`${pickle}.`)).toEqual(expected);
  });

  it.each([
    ['beyond the storage', tensor(float, 0, [7], [1])],
    ['behind the storage', tensor(float, 5, [2], [1])],
    ['far strides', tensor(float, 0, [2], [6])],
    ['repeated for ever', tensor(float, 0, [7], [0])],
    ['too few strides', tensor(float, 0, [2, 2], [1])],
    ['too many strides', tensor(float, 0, [2], [1, 1])],
    ['no storage', tensor('N', 0, [1], [1])],
  ])('%s are refused', (_, pickle) => {
    expect(numbersOf(`${pickle}.`)).toMatch(/^torch\/tensor: /);
  });

  it('are refused where the storage is not there or not whole', () => {
    for (const [of, bytes] of [
      [storage('FloatStorage', '1'), floats],
      [float, floats.subarray(1)],
      [`(${text('other')}t`, floats],
      [`NQ`, floats],
    ] as const) {
      expect(numbersOf(`${tensor(of, 0, [1], [1])}.`, [bytes])).toMatch(/^torch\//);
    }
  });

  it('cannot be changed after they were checked', () => {
    const big = `}(${text('offset')}K\x7f${text('shape')}(K\x7ftu`;
    expect(numbersOf(`${tensor(float, 0, [1], [1])}${big}b.`)).toMatch(/^torch\/pickle/);
    // the tuple of its shape, kept and added to
    const shape = tensor(float, 0, [1], [1]).replace('(K\x01t', '(K\x01tq\x00');
    expect(numbersOf(`${shape}h\x00K\x7fa0.`)).toEqual([1]);
  });
});

describe('N-19: pickles that do more than hold data', () => {
  it.each([
    ['torch/global', 'it names os.system', `cos\nsystem\n(${text('id')}tR.`],
    ['torch/global', 'it names builtins.eval', `cbuiltins\neval\n(${text('1')}tR.`],
    ['torch/global', 'it names torch.load', 'ctorch\nload\n.'],
    ['torch/global', 'it names torch.nn.Module', 'ctorch.nn\nModule\n.'],
    ['torch/global', 'it names __main__.Net', `${text('__main__')}${text('Net')}\x93.`],
    ['torch/global', 'it names torch.constructor', 'ctorch\nconstructor\n.'],
    ['torch/global', 'it names .__proto__', 'c\n__proto__\n.'],
    ['pickle/opcode', 'opcode INST is not allowed', '(ios\nsystem\n.'],
    ['pickle/opcode', 'opcode OBJ is not allowed', '(o.'],
    ['pickle/opcode', 'opcode EXT1 is not allowed', '\x82\x01.'],
    ['pickle/opcode', 'opcode NEWOBJ_EX is not allowed', '\x92.'],
    ['pickle/opcode', 'opcode 0xff is not allowed', '\xff.'],
    ['pickle/integer', 'opcode LONG1 holds 8 bytes', '\x8a\x0812345678.'],
    ['pickle/truncated', 'ends in the middle', 'N'],
    ['pickle/truncated', 'ends in the middle', 'B\xf0\xff\xff\xff.'],
    ['pickle/truncated', 'ends in the middle', 'X\xff\xff\xff\x7f.'],
    ['pickle/truncated', 'ends in the middle', 'cos\nsystem'],
    ['torch/pickle', 'not a pickle', 'ccollections\nOrderedDict\nNR.'],
    ['torch/pickle', 'not a pickle', 'tt.'],
    ['torch/pickle', 'not a pickle', 'NNs.'],
    ['torch/pickle', 'not a pickle', 'ccollections\nOrderedDict\n)\x81.'],
  ])('%s: %s', (code, message, pickle) => {
    const decoded = read(pickle);
    expect(decoded.ok ? 'ok' : decoded.issue).toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
  });

  it('touch no prototype', () => {
    const poison = `}(${text('__proto__')}}(${text('polluted')}K\x01uu`;
    for (const pickle of [
      `ctorch.nn.modules.linear\nLinear\n)\x81${poison}b.`,
      `ccollections\nOrderedDict\n${poison}b.`,
      `ccollections\nOrderedDict\n)R${poison}b.`,
      `${poison}.`,
    ]) {
      read(pickle);
      expect(Reflect.get({}, 'polluted')).toBeUndefined();
      expect(Reflect.get(() => 1, 'polluted')).toBeUndefined();
    }
  });

  it('never make it throw, whatever bytes they are', () => {
    const alphabet = '().0NQRabe}])tuhqKMXUc\x81\x85\x86\x87\x88\x89\x93\x94\n\x00\x01\x02ab';
    const parts = fc.constantFrom(
      ...alphabet,
      float,
      tensor(float, 0, [2], [1]),
      text('_parameters'),
      'ctorch.nn.modules.linear\nLinear\n)\x81',
      'ccollections\nOrderedDict\n)R',
    );
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 30 }), (list) => {
        const decoded = read(`${list.join('')}.`);
        if (!decoded.ok) return;
        for (const dict of findStateDicts(decoded.value)) readStateDict(dict);
      }),
      { numRuns: 3000 },
    );
  });
});

describe('files', () => {
  it.each([
    ['torch/format', 'before 1.6', utf8('\x80\x02}.')],
    ['torch/format', 'data.pkl', encodeZip([{ name: 'x', bytes: utf8('') }])],
    ['zip/truncated', 'zip', utf8('PK')],
    [
      'torch/format',
      'TorchScript',
      encodeZip(['a/data.pkl', 'a/constants.pkl'].map((name) => ({ name, bytes: utf8('N.') }))),
    ],
  ])('%s: %s', (code, words, file) => {
    const decoded = decodeTorch(file);
    expect(decoded.ok ? {} : decoded.issue).toMatchObject({ code });
    expect(JSON.stringify(decoded)).toContain(words);
  });

  it('of big-endian machines are read', () => {
    const file = encodeZip([
      { name: 'a/data.pkl', bytes: opcodes(0x80, 2, `${tensor(float, 0, [1], [1])}.`) },
      { name: 'a/byteorder', bytes: utf8('big') },
      { name: 'a/data/0', bytes: Uint8Array.of(0x3f, 0x80, 0, 0) },
    ]);
    const decoded = decodeTorch(file);
    expect(decoded.ok && decoded.value instanceof TorchTensor).toBe(true);
    if (decoded.ok && decoded.value instanceof TorchTensor) {
      expect([...readTorchTensor(decoded.value)]).toEqual([1]);
    }
  });
});

describe('state dicts', () => {
  const linear = 'ctorch.nn.modules.linear\nLinear\n)\x81';
  const one = tensor(float, 0, [1], [1]);

  it('of modules hold parameters and lasting buffers, with prefixes', () => {
    const inner = `${linear}}(${text('_parameters')}}(${text('w')}${one}${text('b')}Nuub`;
    const fleeting = `c__builtin__\nset\n](${text('gone')}e\x85R`;
    const buffers = `${text('_buffers')}}(${text('kept')}${one}${text('gone')}${one}u`;
    const members = `${buffers}${text('_non_persistent_buffers_set')}${fleeting}`;
    const outer = `${linear}}(${members}${text('_modules')}}(${text('net')}${inner}uub`;
    const decoded = read(`${outer}.`);
    const [dict] = decoded.ok ? findStateDicts(decoded.value) : [];
    expect([...dict!.keys()]).toEqual(['kept', 'net.w']);
  });

  it('of a module that holds itself are empty', () => {
    const itself = `${linear}q\x00}(${text('_parameters')}}(${text('w')}${one}u`;
    const decoded = read(`${itself}${text('_modules')}}(${text('me')}h\x00uub.`);
    const [dict] = decoded.ok ? findStateDicts(decoded.value) : [];
    expect(dict!.size).toBe(0);
  });

  it('that share one storage many times over are refused', () => {
    const shared = tensor(float, 0, [6], [1]);
    const dict = (count: number) =>
      `}(${Array.from({ length: count }, (_, i) => text(`w${i}`) + shared).join('')}u.`;
    const codeOf = (pickle: string) => {
      const decoded = read(pickle);
      const found = decoded.ok ? readStateDict(findStateDicts(decoded.value)[0]!) : decoded;
      return found.ok ? 'ok' : found.issue.code;
    };
    expect(codeOf(dict(2))).toBe('ok');
    expect(codeOf(dict(20))).toBe('torch/state-dict');
    expect(codeOf(`}(${text('epoch')}K\x01u.`)).toBe('torch/state-dict');
    expect(codeOf('}.')).toBe('torch/state-dict');
  });

  it('of any architecture come back, those in bundles too', () => {
    const params = {
      layout: createLayout([
        { name: 'blocks.0.w', shape: [2, 1] },
        { name: 'head', shape: [] },
      ]),
      values: Float64Array.of(1, 2, -0),
    };
    expect(decodeTorchState(encodeTorchState(params))).toEqual({ ok: true, value: params });
    const items = [['epoch', 1] as const, ['net', stateDictOf(params)] as const];
    expect(decodeTorchState(encodeTorch({ kind: 'dict', items }))).toEqual({
      ok: true,
      value: params,
    });
    expect(decodeTorchState(encodeTorch('nothing'))).toMatchObject({ ok: false });
    expect(decodeTorchState(utf8('nothing'))).toMatchObject({ ok: false });
  });

  it('are written the same each time', () => {
    const tensorOf = { shape: [2], values: Float64Array.of(1, 2) };
    const payload = {
      kind: 'dict',
      items: [['w', { kind: 'tensor', tensor: tensorOf }]],
    } as const;
    expect(toBase64(encodeTorch(payload))).toBe(toBase64(encodeTorch(payload)));
    expect(() => encodeTorch(2 ** 31)).toThrow(RangeError);
    const decoded = decodeTorch(encodeTorch(payload));
    const state = decoded.ok ? readStateDict(findStateDicts(decoded.value)[0]!) : decoded;
    expect(state).toMatchObject({ ok: true, value: [{ name: 'w', ...tensorOf }] });
  });
});
