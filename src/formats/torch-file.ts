/**
 * Reads PyTorch files safely: the opcodes of the pickle (PEP 307, PEP 3154) are checked against an allow-list before
 * any of it is executed. Opcodes that do more than hold data are rejected by name.
 */

import { Parser } from 'pickleparser';
import { type Issue, ok, type Result, refuse } from '../base/errors.ts';
import { isCount, listOf } from '../base/shape.ts';
import { bytesOf, readNumbers, type StoredType } from '../tensor/dtype.ts';
import { stridedValues } from './numpy.ts';
import { decodeZip } from './zip.ts';

/** Bytes shared by one or more tensors. */
class Storage {
  readonly type: StoredType;
  readonly bytes: Uint8Array;
  readonly isLittle: boolean;

  constructor(type: StoredType, bytes: Uint8Array, isLittle: boolean) {
    this.type = type;
    this.bytes = bytes;
    this.isLittle = isLittle;
    Object.freeze(this);
  }
}

/** A tensor whose values are still in the file. Frozen, because a pickle can set members of any object it made. */
export class TorchTensor {
  readonly storage: Storage;
  readonly offset: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  /** Number of values. */
  readonly size: number;
  /** Length of the part of the storage that it spans, from `offset` on, in values. */
  readonly reach: number;

  constructor([storage, offset, shape, strides]: readonly unknown[]) {
    if (!(storage instanceof Storage && isCount(offset) && isSizes(shape) && isSizes(strides))) {
      throw new Refused('torch/tensor', 'a tensor is not built the way PyTorch builds it');
    }
    this.storage = storage;
    this.offset = offset;
    this.shape = [...shape];
    this.strides = [...strides];
    this.size = shape.reduce((product, dim) => product * dim, 1);
    this.reach = shape.reduce((sum, dim, i) => sum + (dim - 1) * (strides[i] ?? Number.NaN), 1);
    if (this.size === 0) this.reach = 0;
    const count = storage.bytes.length / bytesOf(storage.type);
    // a tensor that repeats values (stride 0) could have any size
    const fits = this.size <= count && offset + this.reach <= count;
    if (!fits || shape.length !== strides.length) {
      throw new Refused('torch/tensor', `a tensor [${shape}] does not fit its storage of ${count}`);
    }
    Object.freeze(this);
  }
}

/** An object of a torch.nn class: its members, without behavior. */
export class TorchModule {
  members: ReadonlyMap<unknown, unknown> = new Map();

  __setstate__(state: unknown): void {
    if (state instanceof Map) this.members = state;
  }
}

/** Carries a refusal through the parser, which only knows exceptions. */
class Refused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Decodes the saved object: maps, arrays, numbers, texts, `TorchTensor`s and `TorchModule`s. */
export function decodeTorch(file: Uint8Array): Result<unknown> {
  const members = decodeZip(file);
  if (!members.ok) {
    return file[0] === 0x50
      ? members
      : refuse('torch/format', 'file', 'not a zip archive; PyTorch before 1.6 wrote other files');
  }
  const named = new Map(members.value.map(({ name, bytes }) => [name, bytes]));
  const pickle = members.value.find(({ name }) => /^[^/]*\/data\.pkl$/.test(name));
  if (pickle === undefined) return refuse('torch/format', 'data.pkl', 'is not in the archive');
  const folder = pickle.name.slice(0, -'data.pkl'.length);
  if (named.has(`${folder}constants.pkl`)) {
    return refuse('torch/format', 'file', 'a TorchScript program, not a checkpoint');
  }
  const order = new TextDecoder().decode(named.get(`${folder}byteorder`));
  const storage = (key: string) => named.get(`${folder}data/${key}`);
  return parse(pickle.bytes, { storage, isLittle: order !== 'big' });
}

interface Storages {
  readonly storage: (key: string) => Uint8Array | undefined;
  readonly isLittle: boolean;
}

function parse(bytes: Uint8Array, { storage, isLittle }: Storages): Result<unknown> {
  const forbidden = findForbiddenOpcode(bytes);
  if (forbidden) return { ok: false, issue: forbidden };
  const types = new Map<unknown, StoredType>();
  const parser = new Parser({
    unpicklingTypeOfDictionary: 'Map',
    nameResolver: { resolve: (module, name) => resolveGlobal(module, name, types) },
    persistentResolver: {
      resolve: (id: unknown): Storage => {
        const [kind, type, key] = Array.isArray(id) ? id : [];
        const stored = types.get(type);
        const data = typeof key === 'string' ? storage(key) : undefined;
        if (kind !== 'storage' || !stored || !data || data.length % bytesOf(stored) !== 0) {
          throw new Refused('torch/storage', 'a storage is incomplete or missing');
        }
        return new Storage(stored, data, isLittle);
      },
    },
  });
  try {
    return ok(parser.parse<unknown>(bytes));
  } catch (error) {
    if (error instanceof Refused) return refuse(error.code, 'data.pkl', error.message);
    return refuse('torch/pickle', 'data.pkl', 'not a pickle as PyTorch writes it');
  }
}

/** Element types of the PyTorch storage classes. */
const storages: Readonly<Record<string, StoredType>> = {
  HalfStorage: 'f16',
  BFloat16Storage: 'bf16',
  FloatStorage: 'f32',
  DoubleStorage: 'f64',
  CharStorage: 'i8',
  ShortStorage: 'i16',
  IntStorage: 'i32',
  LongStorage: 'i64',
  ByteStorage: 'u8',
  BoolStorage: 'bool',
};

type Callable = (...values: readonly unknown[]) => unknown;

/** Functions that a pickle may call, by module and name. Each only returns a value. */
const callables: Readonly<Record<string, Callable>> = {
  'collections OrderedDict': () => new Map(),
  '__builtin__ set': (items) => (Array.isArray(items) ? [...items] : []),
  'builtins set': (items) => (Array.isArray(items) ? [...items] : []),
  'torch Size': (dims) => dims,
  'torch device': (name) => name,
  'torch._utils _rebuild_tensor': (...parts) => new TorchTensor(parts),
  'torch._utils _rebuild_tensor_v2': (...parts) => new TorchTensor(parts),
  'torch._utils _rebuild_parameter': (tensor) => tensor,
};

/** Classes whose objects hold tensors. DataParallel adds the prefix `module.`. */
const MODULE = /^torch\.nn\.modules\.[a-z_]+ [A-Z]\w*$/;
const PARALLEL =
  /^torch\.nn\.parallel\.(?:data_parallel DataParallel|distributed DistributedDataParallel)$/;

/** Returns a new object each time, because a pickle can add members to the objects it gets. */
function resolveGlobal(
  module: string,
  name: string,
  types: Map<unknown, StoredType>,
): Callable | typeof TorchModule {
  const path = `${module} ${name}`;
  const stored = module === 'torch' && Object.hasOwn(storages, name) ? storages[name] : undefined;
  if (stored !== undefined) {
    const type: Callable = () => undefined;
    types.set(type, stored);
    return type;
  }
  if (MODULE.test(path) || PARALLEL.test(path)) return class extends TorchModule {};
  const callable = Object.hasOwn(callables, path) ? callables[path] : undefined;
  if (callable) return (...values) => callable(...values);
  const dotted = path.replace(' ', '.').slice(0, 120);
  throw new Refused('torch/global', `it names ${dotted}, which is not allowed in a state`);
}

/** Returns the tensor's values in row-major order, as doubles. */
export function readTorchTensor(tensor: TorchTensor): Float64Array {
  const { storage, offset, reach } = tensor;
  const width = bytesOf(storage.type);
  const bytes = storage.bytes.subarray(width * offset, width * (offset + reach));
  const values = readNumbers(storage.type, bytes, storage.isLittle);
  return stridedValues(values, { ...tensor, offset: 0 });
}

const isSizes = listOf(isCount);

/** Length of an opcode's argument in bytes, or how it is encoded: a length prefix of 1 or 4 bytes, or two lines. */
type Argument = number | 'length1' | 'length4' | 'lines';

interface Opcode {
  readonly name: string;
  /** Absent if the opcode is not allowed. */
  readonly argument?: Argument;
}

const opcodes = new Map<number, Opcode>();

/** Adds opcodes, each as code and name: `K BININT1`. */
function list(text: string, argument?: Argument): void {
  for (const pair of text.split(',')) {
    const [code, name] = pair.trim().split(' ');
    const byte = code!.length === 1 ? code!.charCodeAt(0) : Number.parseInt(code!, 16);
    opcodes.set(byte, { name: name!, ...(argument !== undefined && { argument }) });
  }
}

list('( MARK, . STOP, 0 POP, N NONE, 88 NEWTRUE, 89 NEWFALSE, 94 MEMOIZE', 0);
list(
  ') EMPTY_TUPLE, t TUPLE, 85 TUPLE1, 86 TUPLE2, 87 TUPLE3, ] EMPTY_LIST, a APPEND, e APPENDS',
  0,
);
list('} EMPTY_DICT, s SETITEM, u SETITEMS, R REDUCE, 81 NEWOBJ, b BUILD, Q BINPERSID', 0);
list('93 STACK_GLOBAL', 0);
list('80 PROTO, K BININT1, h BINGET, q BINPUT', 1);
list('M BININT2', 2);
list('J BININT, j LONG_BINGET, r LONG_BINPUT', 4);
list('G BINFLOAT, 95 FRAME', 8);
list('8a LONG1, U SHORT_BINSTRING, C SHORT_BINBYTES, 8c SHORT_BINUNICODE', 'length1');
list('T BINSTRING, B BINBYTES, X BINUNICODE', 'length4');
list('c GLOBAL', 'lines');
list('1 POP_MARK, 2 DUP, F FLOAT, I INT, L LONG, P PERSID, S STRING, V UNICODE, d DICT, g GET');
list('i INST, l LIST, o OBJ, p PUT, 82 EXT1, 83 EXT2, 84 EXT4, 8b LONG4, 8d BINUNICODE8');
list('8e BINBYTES8, 8f EMPTY_SET, 90 ADDITEMS, 91 FROZENSET, 92 NEWOBJ_EX, 96 BYTEARRAY8');
list('97 NEXT_BUFFER, 98 READONLY_BUFFER');

/** Maximum bytes of an integer: longer ones do not fit a double, and states do not need them. */
const MAX_INTEGER_BYTES = 6;

/** Returns the first reason to reject the pickle; undefined if it is safe to execute. */
function findForbiddenOpcode(bytes: Uint8Array): Issue | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length; ) {
    const opcode = opcodes.get(bytes[at]!);
    const name = opcode?.name ?? `0x${bytes[at]!.toString(16)}`;
    const where = `byte ${at} of the pickle`;
    if (opcode?.argument === undefined) {
      return issue('pickle/opcode', where, `opcode ${name} is not allowed in a state`);
    }
    if (name === 'STOP') return undefined;
    const next = endOf(view, at + 1, opcode.argument);
    if (next === undefined || next > bytes.length) break;
    if (name === 'LONG1' && next - at - 2 > MAX_INTEGER_BYTES) {
      return issue('pickle/integer', where, `opcode LONG1 holds ${next - at - 2} bytes`);
    }
    at = next;
  }
  return issue('pickle/truncated', 'the pickle', 'ends in the middle of an opcode');
}

/** Returns the position after the argument that starts at `at`. */
function endOf(view: DataView, at: number, argument: Argument): number | undefined {
  if (typeof argument === 'number') return at + argument;
  if (argument === 'length1' && at + 1 <= view.byteLength) return at + 1 + view.getUint8(at);
  if (argument === 'length4' && at + 4 <= view.byteLength) return at + 4 + view.getUint32(at, true);
  if (argument !== 'lines') return undefined;
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const first = bytes.indexOf(10, at);
  const second = first < 0 ? -1 : bytes.indexOf(10, first + 1);
  return second < 0 ? undefined : second + 1;
}

const issue = (code: string, at: string, message: string): Issue => refuse(code, at, message).issue;
