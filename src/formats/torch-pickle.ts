/**
 * Writes PyTorch files: a pickle of protocol 2, and storages of doubles. `torch.load` reads a dict of tensors even with
 * `weights_only`, and modules only without it.
 */
import { concatBytes, utf8 } from '../base/bytes.ts';
import type { Params } from '../tensor/params.ts';
import type { NamedTensor } from '../tensor/safetensors.ts';
import { tensorsOfState } from './state-json.ts';
import { encodeZip } from './zip.ts';

/** A value to pickle. Texts must be shorter than 4 GiB, numbers integers from 0 to 2^31 - 1. */
export type Pickled =
  | null
  | boolean
  | number
  | string
  | { readonly kind: 'dict' | 'ordered'; readonly items: readonly (readonly [string, Pickled])[] }
  | { readonly kind: 'empty-set' }
  | { readonly kind: 'tensor' | 'parameter'; readonly tensor: Omit<NamedTensor, 'name'> }
  | {
      readonly kind: 'object';
      /** Module and name: `torch.nn.modules.linear Linear`. */
      readonly type: string;
      readonly members: readonly (readonly [string, Pickled])[];
    };

/** Encodes a file like `torch.save`. */
export function encodeTorch(payload: Pickled): Uint8Array {
  const storages: Uint8Array[] = [];
  const pickle = concatBytes(bytes(0x80, 2), ...pickled(payload, storages), code('.'));
  const member = (name: string, content: Uint8Array) => ({
    name: `archive/${name}`,
    bytes: content,
  });
  return encodeZip([
    member('data.pkl', pickle),
    member('byteorder', utf8('little')),
    ...storages.map((storage, i) => member(`data/${i}`, storage)),
    member('version', utf8('3\n')),
  ]);
}

type Parts = readonly Uint8Array[];

const bytes = (...values: readonly number[]) => Uint8Array.from(values);
const code = (opcodes: string) => utf8(opcodes);
const MARK = code('(');
const TUPLE = code('t');
const EMPTY_TUPLE = code(')');
const REDUCE = code('R');

/** Returns the opcodes that push a value on the stack; tensors append their values to `storages`. */
function pickled(value: Pickled, storages: Uint8Array[]): Parts {
  if (value === null) return [code('N')];
  if (typeof value === 'boolean') return [bytes(value ? 0x88 : 0x89)];
  if (typeof value === 'number') return [integer(value)];
  if (typeof value === 'string') return text(value);
  switch (value.kind) {
    case 'dict':
      return [code('}'), ...items(value.items, storages)];
    case 'ordered':
      return [...emptyOrdered(), ...items(value.items, storages)];
    case 'empty-set':
      return [global('__builtin__ set'), code(']'), bytes(0x85), REDUCE];
    case 'tensor':
      return tensor(value.tensor, storages);
    case 'parameter': {
      const parts = [...tensor(value.tensor, storages), bytes(0x88), ...emptyOrdered()];
      return [global('torch._utils _rebuild_parameter'), ...parts, bytes(0x87), REDUCE];
    }
    case 'object': {
      const made = [global(value.type), EMPTY_TUPLE, bytes(0x81)];
      return [...made, code('}'), ...items(value.members, storages), code('b')];
    }
  }
}

const items = (pairs: readonly (readonly [string, Pickled])[], storages: Uint8Array[]): Parts => [
  MARK,
  ...pairs.flatMap(([key, value]) => [...text(key), ...pickled(value, storages)]),
  code('u'),
];

const emptyOrdered = (): Parts => [global('collections OrderedDict'), EMPTY_TUPLE, REDUCE];

const global = (path: string) => code(`c${path.replace(' ', '\n')}\n`);

/** `_rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict())`. */
function tensor({ shape, values }: Omit<NamedTensor, 'name'>, storages: Uint8Array[]): Parts {
  const key = String(storages.length);
  storages.push(doubles(values));
  const storage = [MARK, ...text('storage'), global('torch DoubleStorage'), ...text(key)];
  const location = [...text('cpu'), integer(values.length), TUPLE, code('Q'), integer(0)];
  const strides = shape.map((_, i) => shape.slice(i + 1).reduce((all, dim) => all * dim, 1));
  return [
    global('torch._utils _rebuild_tensor_v2'),
    MARK,
    ...storage,
    ...location,
    ...tuple(shape),
    ...tuple(strides),
    bytes(0x89),
    ...emptyOrdered(),
    TUPLE,
    REDUCE,
  ];
}

const tuple = (numbers: readonly number[]): Parts => [MARK, ...numbers.map(integer), TUPLE];

function integer(value: number): Uint8Array {
  if (!Number.isSafeInteger(value) || value < 0 || value > 0x7fff_ffff) {
    throw new RangeError(`${value} is not an integer from 0 to 2^31 - 1`);
  }
  const out = new Uint8Array(5);
  out[0] = 'J'.charCodeAt(0);
  new DataView(out.buffer).setInt32(1, value, true);
  return out;
}

function text(value: string): Parts {
  const content = utf8(value);
  const start = new Uint8Array(5);
  start[0] = 'X'.charCodeAt(0);
  new DataView(start.buffer).setUint32(1, content.length, true);
  return [start, content];
}

function doubles(values: ArrayLike<number>): Uint8Array {
  const out = new Uint8Array(8 * values.length);
  const view = new DataView(out.buffer);
  for (let i = 0; i < values.length; i++) view.setFloat64(8 * i, values[i]!, true);
  return out;
}

/** Returns an exported state as a module that PyTorch can call. */
export function torchModule(exported: Params): Pickled {
  const tensors = tensorsOfState(exported);
  const linear = (prefix: string): Pickled => {
    const [bias, weight] = ['bias', 'weight'].map(
      (name) => tensors.find((tensor) => tensor.name === prefix + name)!,
    );
    // a state may leave out a dimension of one; the module must have it
    const [outputs, inputs] = weight!.shape.length === 2 ? weight!.shape : [1, weight!.shape[0]];
    return module('torch.nn.modules.linear Linear', {
      parameters: [
        ['weight', parameter([outputs!, inputs!], weight!)],
        ['bias', parameter([outputs!], bias!)],
      ],
      more: [
        ['in_features', inputs!],
        ['out_features', outputs!],
      ],
    });
  };
  if (tensors.length === 2) return linear('');
  return module('torch.nn.modules.container Sequential', {
    modules: [
      ['hidden', linear('hidden.')],
      ['activation', module('torch.nn.modules.activation Tanh', {})],
      ['output', linear('output.')],
    ],
  });
}

const parameter = (shape: readonly number[], { values }: NamedTensor): Pickled => ({
  kind: 'parameter',
  tensor: { shape, values },
});

type Items = readonly (readonly [string, Pickled])[];

/** Returns a module with the members that PyTorch has had since 1.13, in its order. */
function module(
  type: string,
  parts: { readonly parameters?: Items; readonly modules?: Items; readonly more?: Items },
): Pickled {
  const ordered = (items: Items = []): Pickled => ({ kind: 'ordered', items });
  const hooks = [
    '_backward_pre_hooks',
    '_backward_hooks',
    '_forward_hooks',
    '_forward_hooks_with_kwargs',
    '_forward_hooks_always_called',
    '_forward_pre_hooks',
    '_forward_pre_hooks_with_kwargs',
    '_state_dict_hooks',
    '_state_dict_pre_hooks',
    '_load_state_dict_pre_hooks',
    '_load_state_dict_post_hooks',
  ];
  return {
    kind: 'object',
    type,
    members: [
      ['training', true],
      ['_parameters', ordered(parts.parameters)],
      ['_buffers', ordered()],
      ['_non_persistent_buffers_set', { kind: 'empty-set' }],
      ['_is_full_backward_hook', null],
      ...hooks.map((name) => [name, ordered()] as const),
      ['_modules', ordered(parts.modules)],
      ...(parts.more ?? []),
    ],
  };
}

/** Returns a state as a dict of double tensors, for `load_state_dict` of a module with these names. */
export const stateDictOf = (params: Params): Pickled => ({
  kind: 'dict',
  items: tensorsOfState(params).map(
    ({ name, ...tensor }) => [name, { kind: 'tensor', tensor }] as const,
  ),
});

/**
 * Encodes a state of any architecture for `module.load_state_dict(torch.load(file))`: f64 tensors, names unchanged.
 *
 * @example
 * ```ts
 * import { createLayout, decodeTorchState, encodeTorchState } from 'nostrain/python';
 *
 * const layout = createLayout([{ name: 'fc.weight', shape: [1, 2] }]);
 * const read = decodeTorchState(encodeTorchState({ layout, values: Float64Array.of(1, 2) }));
 * read.ok && read.value.values; // => Float64Array.of(1, 2)
 * ```
 */
export const encodeTorchState = (params: Params): Uint8Array => encodeTorch(stateDictOf(params));
