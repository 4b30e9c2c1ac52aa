/**
 * Reads and writes the safetensors file format: 8-byte header length, JSON header, raw little-endian tensors. Writes
 * F32 and F64. Reads all number types except 8-bit floats, and checks every offset before use.
 */

import { concatBytes, utf8 } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { isCount, isObject, listOf, type Untyped } from '../base/shape.ts';
import { bytesOf, readNumbers, type StoredType } from './dtype.ts';
import type { Vector } from './params.ts';

/** One tensor with its name and shape. */
export interface NamedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Vector;
}

export interface SafetensorsFile {
  readonly tensors: readonly NamedTensor[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** Maximum bytes of a header, which is parsed in memory. */
export const MAX_HEADER_BYTES = 64 * 1024 * 1024;

const METADATA = '__metadata__';

const dtypeOf = (values: Vector): 'F32' | 'F64' => (values instanceof Float32Array ? 'F32' : 'F64');

/** Encodes a file; tensors keep their order. */
export function encodeSafetensors({ tensors, metadata }: SafetensorsFile): Uint8Array {
  const described = tensors.map(({ name, shape, values }): DescribedTensor => {
    return { name, shape, dtype: dtypeOf(values), bytes: values.byteLength };
  });
  const raw = tensors.map(
    ({ values }) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
  );
  return concatBytes(encodeSafetensorsHeader(described, metadata), ...raw);
}

/** A tensor to be written, without its data. */
export interface DescribedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: Uppercase<StoredType>;
  readonly bytes: number;
}

/** Encodes the file up to the tensor data, which must follow in this order. */
export function encodeSafetensorsHeader(
  tensors: readonly DescribedTensor[],
  metadata: Metadata,
): Uint8Array {
  let end = 0;
  const entries = tensors.map(({ name, shape, dtype, bytes }) => {
    if (name === METADATA) throw new RangeError(`no tensor can be named ${METADATA}`);
    const from = end;
    end += bytes;
    return [name, { dtype, shape, data_offsets: [from, end] }] as const;
  });
  const text = JSON.stringify(Object.fromEntries([[METADATA, metadata], ...entries]));
  const json = utf8(text);
  const padded = utf8(text + ' '.repeat((8 - (json.length % 8)) % 8));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(padded.length), true);
  return concatBytes(length, padded);
}

/** Decodes the tensors, in file order, and the metadata. Values are copies. */
export function decodeSafetensors(file: Uint8Array): Result<SafetensorsFile> {
  // a Node Buffer is a Uint8Array whose `slice` does not copy
  const bytes = new Uint8Array(file.buffer, file.byteOffset, file.byteLength);
  if (bytes.length < 8) return refuse('safetensors/truncated', 'header', 'shorter than 8 bytes');
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  if (length > MAX_HEADER_BYTES || 8 + length > bytes.length) {
    return refuse(
      'safetensors/truncated',
      'header',
      `header of ${length} bytes does not fit the file`,
    );
  }
  const data = bytes.subarray(8 + length);
  const header = readSafetensorsEntries(bytes.subarray(8, 8 + length), data.length);
  if (!header.ok) return header;
  const { entries, metadata } = header.value;
  return ok({ tensors: entries.map((entry) => readTensor(entry, data)), metadata });
}

/** Parses the entries of a JSON header, in file order; `dataBytes` is the length of the data after the header. */
export function readSafetensorsEntries(
  json: Uint8Array,
  dataBytes: number,
): Result<{ readonly entries: readonly SafetensorsEntry[]; readonly metadata: Metadata }> {
  const header = parseHeader(json);
  if (!header) return refuse('safetensors/header', 'header', 'not a JSON object');
  const { [METADATA]: metadata, ...described } = header;
  const entries: SafetensorsEntry[] = [];
  for (const [name, description] of Object.entries(described)) {
    const entry = readEntry(name, description);
    if (!entry.ok) return entry;
    entries.push(entry.value);
  }
  entries.sort((a, b) => a.from - b.from || a.to - b.to);
  const gap = findGap(entries, dataBytes);
  if (gap !== undefined) {
    return refuse('safetensors/offsets', 'header', `byte ${gap} is in no tensor, or in two`);
  }
  return ok({ entries, metadata: readMetadata(metadata) });
}

/** Parses shapes by name and the metadata from a JSON header alone; undefined if it is not a header. */
export function readSafetensorsHeader(
  json: Uint8Array,
):
  | { readonly shapes: ReadonlyMap<string, readonly number[]>; readonly metadata: Metadata }
  | undefined {
  const header = parseHeader(json);
  if (!header) return undefined;
  const { [METADATA]: metadata, ...described } = header;
  const shapes = Object.entries(described).flatMap(([name, description]) => {
    const { shape } = (description ?? {}) as Untyped;
    return isSizes(shape) ? [[name, shape] as const] : [];
  });
  return { shapes: new Map(shapes), metadata: readMetadata(metadata) };
}

type Metadata = Readonly<Record<string, string>>;

/** One tensor as the header describes it; `from` and `to` are byte offsets after the header. */
export interface SafetensorsEntry {
  readonly name: string;
  readonly dtype: StoredType;
  readonly shape: readonly number[];
  readonly from: number;
  readonly to: number;
}

/** Returns the first byte that is in no tensor or in two, or at which data and tensors end apart. */
function findGap(entries: readonly SafetensorsEntry[], length: number): number | undefined {
  let end = 0;
  for (const { from, to } of entries) {
    if (from !== end) return Math.min(from, end);
    end = to;
  }
  return end === length ? undefined : Math.min(end, length);
}

function parseHeader(bytes: Uint8Array): Untyped | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function readMetadata(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}

function readEntry(name: string, description: unknown): Result<SafetensorsEntry> {
  const { dtype, shape, data_offsets: offsets } = (description ?? {}) as Untyped;
  const stored = typeof dtype === 'string' ? storedTypes.get(dtype) : undefined;
  if (stored === undefined) {
    const typeName = typeof dtype === 'string' ? dtype.slice(0, 20) : `a ${typeof dtype}`;
    return refuse('safetensors/dtype', name, `dtype ${typeName} is not read`);
  }
  if (!isSizes(shape) || !isSizes(offsets) || offsets.length !== 2) {
    return refuse('safetensors/header', name, 'shape or data_offsets are not lists of sizes');
  }
  const size = shape.reduce((product, dim) => product * dim, 1);
  const [from, to] = offsets as [number, number];
  if (to - from !== size * bytesOf(stored)) {
    return refuse('safetensors/offsets', name, `bytes ${from}..${to} do not hold ${size} values`);
  }
  return ok({ name, dtype: stored, shape, from, to });
}

function readTensor(
  { name, dtype, shape, from, to }: SafetensorsEntry,
  data: Uint8Array,
): NamedTensor {
  return { name, shape, values: readNumbers(dtype, data.subarray(from, to)) };
}

const storedTypes: ReadonlyMap<string, StoredType> = new Map([
  ['F16', 'f16'],
  ['BF16', 'bf16'],
  ['F32', 'f32'],
  ['F64', 'f64'],
  ['I8', 'i8'],
  ['I16', 'i16'],
  ['I32', 'i32'],
  ['I64', 'i64'],
  ['U8', 'u8'],
  ['U16', 'u16'],
  ['U32', 'u32'],
  ['U64', 'u64'],
  ['BOOL', 'bool'],
]);

const isSizes = listOf(isCount);
