/**
 * PyTorch's own files (`torch.save` since 1.6): a zip of one pickle and one member per storage. The pickle is data here:
 * dicts, lists, tensors and modules of torch.nn come out, nothing is run, and any other name in it is refused.
 */
import { Parser } from 'pickleparser';
import { ok, type Result, refuse } from '../../base/result.ts';
import { bytesOf, readNumbers, type StoredType } from '../../tensor/dtype.ts';
import { stridedValues } from './npy.ts';
import { findForbiddenOpcode } from './pickle-opcodes.ts';
import { decodeZip } from './zip.ts';

/** The bytes of one or more tensors. */
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

/** A tensor whose numbers are still in the file. Frozen: a pickle can set members of whatever it has made. */
export class TorchTensor {
  readonly storage: Storage;
  readonly offset: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  /** How many numbers it has. */
  readonly size: number;
  /** Numbers of its storage that it reaches over, from `offset` on. */
  readonly reach: number;

  constructor([storage, offset, shape, strides]: readonly unknown[]) {
    if (!(storage instanceof Storage && isSize(offset) && isSizes(shape) && isSizes(strides))) {
      throw new Refused('torch/tensor', 'a tensor is not built as PyTorch builds them');
    }
    this.storage = storage;
    this.offset = offset;
    this.shape = [...shape];
    this.strides = [...strides];
    this.size = shape.reduce((product, dim) => product * dim, 1);
    this.reach = shape.reduce((sum, dim, i) => sum + (dim - 1) * (strides[i] ?? Number.NaN), 1);
    if (this.size === 0) this.reach = 0;
    const count = storage.bytes.length / bytesOf(storage.type);
    // one that repeats its numbers could be of any size
    const fits = this.size <= count && offset + this.reach <= count;
    if (!fits || shape.length !== strides.length) {
      throw new Refused('torch/tensor', `a tensor [${shape}] does not fit its storage of ${count}`);
    }
    Object.freeze(this);
  }
}

/** An object of a class of torch.nn: only its members, no behavior. */
export class TorchModule {
  members: ReadonlyMap<unknown, unknown> = new Map();

  __setstate__(state: unknown): void {
    if (state instanceof Map) this.members = state;
  }
}

/** Thrown through the parser, which knows nothing of results. */
class Refused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** What was saved: maps, arrays, numbers, texts, `TorchTensor`s and `TorchModule`s; or why the file is refused. */
export function decodeTorch(file: Uint8Array): Result<unknown> {
  const members = decodeZip(file);
  if (!members.ok) {
    return file[0] === 0x50
      ? members
      : refuse('torch/format', 'file', 'no zip archive; PyTorch before 1.6 wrote such files');
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
          throw new Refused('torch/storage', 'a storage is not whole in the archive');
        }
        return new Storage(stored, data, isLittle);
      },
    },
  });
  try {
    return ok(parser.parse<unknown>(bytes));
  } catch (error) {
    if (error instanceof Refused) return refuse(error.code, 'data.pkl', error.message);
    return refuse('torch/pickle', 'data.pkl', 'not a pickle that PyTorch writes');
  }
}

/** What the storage classes of PyTorch hold. */
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

/** Functions a pickle may call, by module and name. Each of them only makes a value. */
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

/** Classes whose objects hold tensors; DataParallel is where `module.` comes from. */
const MODULE =
  /^torch\.nn\.(?:modules\.[a-z_]+ [A-Z]\w*|parallel\.(?:data_parallel DataParallel|distributed DistributedDataParallel))$/;

/** Fresh things each time, since a pickle can hang members on what it is given. */
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
  if (MODULE.test(path)) return class extends TorchModule {};
  const callable = Object.hasOwn(callables, path) ? callables[path] : undefined;
  if (callable) return (...values) => callable(...values);
  const dotted = path.replace(' ', '.').slice(0, 120);
  throw new Refused('torch/global', `it names ${dotted}, which is not read from states`);
}

/** The tensor's numbers, row by row, as doubles. */
export function readTorchTensor(tensor: TorchTensor): Float64Array {
  const { storage, offset, reach } = tensor;
  const width = bytesOf(storage.type);
  const bytes = storage.bytes.subarray(width * offset, width * (offset + reach));
  const values = readNumbers(storage.type, bytes, storage.isLittle);
  return stridedValues(values, { ...tensor, offset: 0 });
}

const isSize = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

const isSizes = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.every(isSize);
