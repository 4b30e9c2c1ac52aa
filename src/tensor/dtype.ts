/** Element types of tensor files (NumPy, PyTorch, safetensors), and conversions to and from f32 and f64. */
import type { Vector } from './params.ts';

export type StoredType =
  | 'f16'
  | 'bf16'
  | 'f32'
  | 'f64'
  | 'i8'
  | 'i16'
  | 'i32'
  | 'i64'
  | 'u8'
  | 'u16'
  | 'u32'
  | 'u64'
  | 'bool';

interface Reader {
  readonly bytes: number;
  /** Whether every value of the type fits an f32 without loss. */
  readonly isSingle?: boolean;
  read(view: DataView, at: number, isLittle: boolean): number;
}

const readers: { readonly [T in StoredType]: Reader } = {
  f16: { bytes: 2, isSingle: true, read: (v, at, le) => halfToNumber(v.getUint16(at, le)) },
  bf16: { bytes: 2, isSingle: true, read: (v, at, le) => brainToNumber(v.getUint16(at, le)) },
  f32: { bytes: 4, isSingle: true, read: (v, at, le) => v.getFloat32(at, le) },
  f64: { bytes: 8, read: (v, at, le) => v.getFloat64(at, le) },
  i8: { bytes: 1, read: (v, at) => v.getInt8(at) },
  i16: { bytes: 2, read: (v, at, le) => v.getInt16(at, le) },
  i32: { bytes: 4, read: (v, at, le) => v.getInt32(at, le) },
  i64: { bytes: 8, read: (v, at, le) => Number(v.getBigInt64(at, le)) },
  u8: { bytes: 1, read: (v, at) => v.getUint8(at) },
  u16: { bytes: 2, read: (v, at, le) => v.getUint16(at, le) },
  u32: { bytes: 4, read: (v, at, le) => v.getUint32(at, le) },
  u64: { bytes: 8, read: (v, at, le) => Number(v.getBigUint64(at, le)) },
  bool: { bytes: 1, read: (v, at) => (v.getUint8(at) === 0 ? 0 : 1) },
};

/** Bytes of one element. */
export const bytesOf = (type: StoredType): number => readers[type].bytes;

/** Decodes all elements of `bytes` into a new array: f32 if lossless, else f64, which rounds integers above 2^53. */
export function readNumbers(type: StoredType, bytes: Uint8Array, isLittle = true): Vector {
  const { bytes: width, isSingle, read } = readers[type];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = bytes.length / width;
  const out = isSingle ? new Float32Array(count) : new Float64Array(count);
  for (let i = 0; i < count; i++) out[i] = read(view, i * width, isLittle);
  return out;
}

/** Value of the last fraction bit of a binary16, by its exponent field. A table is faster than a power. */
const HALF_STEPS = Float64Array.from({ length: 31 }, (_, field) => 2 ** (Math.max(field, 1) - 25));

/** Decodes IEEE 754 binary16 bits. */
export function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (exponent === 0 ? fraction : 1024 + fraction) * HALF_STEPS[exponent]!;
}

/** Rounds each value to the nearest binary16, ties to even; larger values become infinite. */
export function toHalves(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const halves = new Uint16Array(values.length);
  for (let i = 0; i < halves.length; i++) halves[i] = halfOf(bits[i]!);
  return halves;
}

const one = new Float32Array(1);
const oneBits = new Uint32Array(one.buffer);

/** Rounds a number to binary16 as `toHalves` does, without allocating. */
export function numberToHalf(value: number): number {
  one[0] = value;
  return halfOf(oneBits[0]!);
}

/** Rounds the bits of a binary32 to binary16. */
function halfOf(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 255) - 112;
  const fraction = bits & 0x7fffff;
  if (exponent === 143) return sign | (fraction === 0 ? 0x7c00 : 0x7e00);
  if (exponent > 30) return sign | 0x7c00;
  if (exponent < -10) return sign;
  // below 2^-14 numbers are subnormal: no leading 1 and fewer digits
  const digits = exponent > 0 ? fraction : fraction | 0x800000;
  const shift = exponent > 0 ? 13 : 14 - exponent;
  const kept = sign | (exponent > 0 ? exponent << 10 : 0) | (digits >>> shift);
  const rest = digits & ((1 << shift) - 1);
  const tie = 1 << (shift - 1);
  return rest > tie || (rest === tie && kept % 2 === 1) ? kept + 1 : kept;
}

const half = new DataView(new ArrayBuffer(4));

/** Decodes bfloat16 bits: the upper half of a binary32. */
export function brainToNumber(bits: number): number {
  half.setUint32(0, bits << 16);
  return half.getFloat32(0);
}

/** Rounds each binary32 to the nearest bfloat16, ties to even. */
export function toBrains(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  return Uint16Array.from(bits, (all) => (all + 0x7fff + ((all >>> 16) & 1)) >>> 16);
}
