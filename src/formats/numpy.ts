/**
 * Reads and writes states as NumPy archives (.npz) in the two schemas of the Python reference: one f64 array per
 * tensor. Reads .npy files (NEP 1) with numbers or a single text; rejects objects, records and complex numbers.
 */
import { concatBytes, utf8 } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { bytesOf, readNumbers, type StoredType } from '../tensor/dtype.ts';
import type { Params } from '../tensor/params.ts';
import type { NamedTensor } from '../tensor/safetensors.ts';
import { stateOfTensors, tensorsOfState } from './state-json.ts';
import { decodeZip, encodeZip } from './zip.ts';

export interface NpzState {
  readonly params: Params;
  /** Free text; the Python reference stores the name of a runtime. */
  readonly runtime?: string | undefined;
}

/** Whether tensors have this project's names or PyTorch's. */
export type NpzSchema = 'nostrain-model-state' | 'nostrain-pytorch-state-dict';

const SCHEMA = '__nostrain_schema__';
const VERSION = '__nostrain_version__';
const RUNTIME = '__nostrain_runtime__';

/** Encodes an archive that NumPy opens with `np.load`. */
export function encodeNpz({ params, runtime }: NpzState, schema: NpzSchema): Uint8Array {
  const reservedNames = [SCHEMA, VERSION, RUNTIME];
  const tensors = tensorsOfState(params).map(({ name, shape, values }) => {
    if (reservedNames.includes(name)) throw new RangeError(`no tensor can be named ${name}`);
    return { name, bytes: encodeNpy({ shape, values: Float64Array.from(values) }) };
  });
  const members = [
    { name: SCHEMA, bytes: encodeNpyText(schema) },
    { name: VERSION, bytes: encodeNpyInteger(1) },
    ...(runtime === undefined ? [] : [{ name: RUNTIME, bytes: encodeNpyText(runtime) }]),
    ...tensors,
  ];
  return encodeZip(members.map(({ name, bytes }) => ({ name: `${name}.npy`, bytes })));
}

/** Decodes the state in an archive, sorted by name. An archive without a schema is accepted as either one. */
export function decodeNpz(file: Uint8Array, schema: NpzSchema): Result<NpzState> {
  const members = decodeZip(file);
  if (!members.ok) return members;
  const texts = new Map<string, string>();
  const tensors: NamedTensor[] = [];
  for (const { name: entry, bytes } of members.value) {
    if (!entry.endsWith('.npy')) return refuse('npz/member', entry, 'is not a .npy array');
    const name = entry.slice(0, -'.npy'.length);
    if (name === VERSION) continue;
    if (name === SCHEMA || name === RUNTIME) {
      const text = decodeNpyText(bytes);
      if (!text.ok) return refuse(text.issue.code, entry, text.issue.message);
      texts.set(name, text.value);
      continue;
    }
    const array = decodeNpy(bytes);
    if (!array.ok) return refuse(array.issue.code, entry, array.issue.message);
    tensors.push({ name, ...array.value });
  }
  const schemaName = texts.get(SCHEMA) ?? schema;
  if (schemaName !== schema) {
    return refuse('npz/schema', SCHEMA, `the schema is ${schemaName.slice(0, 80)}, not ${schema}`);
  }
  const params = stateOfTensors(tensors);
  return params.ok ? ok({ params: params.value, runtime: texts.get(RUNTIME) }) : params;
}

export interface NumberArray {
  readonly shape: readonly number[];
  /** Row-major. */
  readonly values: Float64Array;
}

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];

/** Encodes a .npy file of doubles. */
export const encodeNpy = ({ shape, values }: NumberArray): Uint8Array =>
  encodeItems('<f8', shape, values, (view, at, value) => view.setFloat64(at, value, true));

/** Encodes a .npy file with one 64-bit integer. */
const encodeNpyInteger = (value: number): Uint8Array =>
  encodeItems('<i8', [], [value], (view, at) => view.setBigInt64(at, BigInt(value), true));

/** Encodes a .npy file with one text. */
export function encodeNpyText(text: string): Uint8Array {
  const points = [...text].map((char) => char.codePointAt(0)!);
  const write = (view: DataView, at: number, point: number) => view.setUint32(at, point, true);
  return encodeItems(`<U${points.length}`, [], points, write, 4);
}

function encodeItems(
  type: string,
  shape: readonly number[],
  items: ArrayLike<number>,
  write: (view: DataView, at: number, item: number) => void,
  width = 8,
): Uint8Array {
  const view = new DataView(new ArrayBuffer(width * items.length));
  for (let i = 0; i < items.length; i++) write(view, width * i, items[i]!);
  return concatBytes(encodeHeader(type, shape), new Uint8Array(view.buffer));
}

/** Encodes a header of version 1.0, padded so that the data starts at a multiple of 64 bytes. */
function encodeHeader(type: string, shape: readonly number[]): Uint8Array {
  const dims = shape.length === 1 ? `${shape[0]},` : shape.join(', ');
  const text = `{'descr': '${type}', 'fortran_order': False, 'shape': (${dims}), }`;
  const length = Math.ceil((10 + text.length + 1) / 64) * 64 - 10;
  if (length > 0xffff) throw new RangeError(`a shape of ${shape.length} dimensions is too long`);
  const start = Uint8Array.of(...MAGIC, 1, 0, length & 255, length >> 8);
  return concatBytes(start, utf8(`${text.padEnd(length - 1)}\n`));
}

interface Parts {
  readonly type: string;
  readonly shape: readonly number[];
  readonly isColumnMajor: boolean;
  readonly data: Uint8Array;
}

/** Decodes the numbers of a .npy file. */
export function decodeNpy(file: Uint8Array): Result<NumberArray> {
  const parts = readParts(file);
  if (!parts.ok) return parts;
  const { type, shape, isColumnMajor, data } = parts.value;
  const stored = storedTypes.get(type.slice(1));
  if (stored === undefined || !/^[<>|=]$/.test(type[0] ?? '')) {
    return refuse('npy/type', 'descr', `unsupported array type ${type.slice(0, 20)}`);
  }
  const size = shape.reduce((product, dim) => product * dim, 1);
  if (size * bytesOf(stored) !== data.length) {
    return refuse('npy/size', 'data', `${data.length} bytes cannot hold ${size} values of ${type}`);
  }
  const values = Float64Array.from(readNumbers(stored, data, type[0] !== '>'));
  return ok({ shape, values: isColumnMajor ? rowByRow(values, shape) : values });
}

/** Decodes a .npy file that holds a single text. */
export function decodeNpyText(file: Uint8Array): Result<string> {
  const parts = readParts(file);
  if (!parts.ok) return parts;
  const { type, shape, data } = parts.value;
  const [, width] = /^[<=]U(\d{1,4})$/.exec(type) ?? [];
  const isOne = shape.every((dim) => dim === 1);
  if (width === undefined || !isOne || data.length !== 4 * Number(width)) {
    return refuse('npy/type', 'descr', 'not a single text');
  }
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const points = Array.from({ length: Number(width) }, (_, i) => view.getUint32(4 * i, true));
  if (points.some((point) => point > 0x10ffff))
    return refuse('npy/text', 'data', 'not valid Unicode text');
  return ok(String.fromCodePoint(...points).replace(/\0+$/, ''));
}

const storedTypes: ReadonlyMap<string, StoredType> = new Map([
  ['f2', 'f16'],
  ['f4', 'f32'],
  ['f8', 'f64'],
  ['i1', 'i8'],
  ['i2', 'i16'],
  ['i4', 'i32'],
  ['i8', 'i64'],
  ['u1', 'u8'],
  ['u2', 'u16'],
  ['u4', 'u32'],
  ['u8', 'u64'],
  ['b1', 'bool'],
]);

function readParts(file: Uint8Array): Result<Parts> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const bad = (message: string) => refuse('npy/header', 'header', message);
  if (file.length < 12 || !MAGIC.every((byte, i) => file[i] === byte))
    return bad('not a .npy file');
  const version = file[6]!;
  if (version < 1 || version > 3) return bad(`version ${version} is not supported; use 1 to 3`);
  const from = version === 1 ? 10 : 12;
  const end = from + (version === 1 ? view.getUint16(8, true) : view.getUint32(8, true));
  if (end > file.length) return bad('the header is longer than the file');
  const text = new TextDecoder('latin1').decode(file.subarray(from, end));
  const [, type] = /'descr'\s*:\s*'([^']{1,20})'/.exec(text) ?? [];
  const [, order] = /'fortran_order'\s*:\s*(True|False)/.exec(text) ?? [];
  const [, dims] = /'shape'\s*:\s*\(([\d,\sL]*)\)/.exec(text) ?? [];
  if (type === undefined) return bad('the element type is missing');
  if (order === undefined || dims === undefined) return bad('the order or shape is missing');
  const shape = (dims.match(/\d+/g) ?? []).map(Number);
  return ok({ type, shape, isColumnMajor: order === 'True', data: file.subarray(end) });
}

/** Converts column-major values to row-major. */
function rowByRow(values: Float64Array, shape: readonly number[]): Float64Array {
  const strides: number[] = [];
  shape.reduce((stride, dim) => {
    strides.push(stride);
    return stride * dim;
  }, 1);
  return stridedValues(values, { offset: 0, shape, strides });
}

export interface Strides {
  readonly offset: number;
  readonly shape: readonly number[];
  /** Distance between neighbors along each axis, in elements. */
  readonly strides: readonly number[];
}

/** Returns the elements of a strided view in row-major order. The view must lie inside `values`. */
export function stridedValues(values: ArrayLike<number>, where: Strides): Float64Array {
  const { offset, shape, strides } = where;
  const out = new Float64Array(shape.reduce((product, dim) => product * dim, 1));
  const index = shape.map(() => 0);
  let at = offset;
  for (let i = 0; i < out.length; i++) {
    out[i] = values[at]!;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at += strides[axis]!;
      if (++index[axis]! < shape[axis]!) break;
      at -= strides[axis]! * shape[axis]!;
      index[axis] = 0;
    }
  }
  return out;
}
