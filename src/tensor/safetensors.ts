/**
 * The safetensors file format: 8-byte header length, JSON header, raw little-endian tensors.
 * Reads F32 and F64 only, checks every offset before use, and knows nothing of what the tensors mean.
 */
import { concatBytes, utf8 } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import type { Vector } from './params.ts';

export interface NamedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Vector;
}

export interface SafetensorsFile {
  readonly tensors: readonly NamedTensor[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** No header of ours comes near this; a longer one is not read. */
const MAX_HEADER_BYTES = 64 * 1024 * 1024;

const dtypeOf = (values: Vector) => (values instanceof Float32Array ? 'F32' : 'F64');

/** File bytes; tensors keep their order. */
export function encodeSafetensors({ tensors, metadata }: SafetensorsFile): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: metadata };
  let offset = 0;
  for (const { name, shape, values } of tensors) {
    header[name] = {
      dtype: dtypeOf(values),
      shape,
      data_offsets: [offset, offset + values.byteLength],
    };
    offset += values.byteLength;
  }
  const text = JSON.stringify(header);
  const json = utf8(text);
  const padded = utf8(text + ' '.repeat((8 - (json.length % 8)) % 8));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(padded.length), true);
  const raw = tensors.map(
    ({ values }) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
  );
  return concatBytes(length, padded, ...raw);
}

/** Tensors and metadata, or why the file is refused. Values are copies. */
export function decodeSafetensors(bytes: Uint8Array): Result<SafetensorsFile> {
  if (bytes.length < 8) return refuse('safetensors/truncated', 'header', 'shorter than 8 bytes');
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  if (length > MAX_HEADER_BYTES || 8 + length > bytes.length) {
    return refuse(
      'safetensors/truncated',
      'header',
      `header of ${length} bytes does not fit the file`,
    );
  }
  const header = parseHeader(bytes.subarray(8, 8 + length));
  if (!header) return refuse('safetensors/header', 'header', 'not a JSON object');
  const data = bytes.subarray(8 + length);
  const tensors: NamedTensor[] = [];
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    const tensor = readTensor(name, entry, data);
    if (!tensor.ok) return tensor;
    tensors.push(tensor.value);
  }
  return ok({ tensors, metadata: readMetadata(header.__metadata__) });
}

function parseHeader(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
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

function readTensor(name: string, entry: unknown, data: Uint8Array): Result<NamedTensor> {
  const { dtype, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
  if (dtype !== 'F32' && dtype !== 'F64') {
    return refuse('safetensors/dtype', name, `dtype ${String(dtype)} is not F32 or F64`);
  }
  if (!isSizes(shape) || !isSizes(offsets) || offsets.length !== 2) {
    return refuse('safetensors/header', name, 'shape or data_offsets are not lists of sizes');
  }
  const width = dtype === 'F32' ? 4 : 8;
  const size = shape.reduce((product, dim) => product * dim, 1);
  const [from, to] = offsets as [number, number];
  if (to > data.length || to - from !== size * width) {
    return refuse('safetensors/offsets', name, `bytes ${from}..${to} do not hold ${size} values`);
  }
  const raw = data.slice(from, to).buffer;
  return ok({
    name,
    shape,
    values: dtype === 'F32' ? new Float32Array(raw) : new Float64Array(raw),
  });
}

const isSizes = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
