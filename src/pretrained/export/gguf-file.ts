/**
 * Writes GGUF files (version 3): metadata, then where each tensor lies, then the tensors' bytes, one tensor at a time.
 *
 * Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 */
import { concatBytes, utf8 } from '../../base/bytes.ts';
import { numberToHalf, toHalves } from '../../tensor/dtype.ts';
import { rawBytes } from './learned.ts';

/** A value of the metadata with its type. */
export type GgufValue =
  | { readonly u32: number }
  | { readonly f32: number }
  | { readonly flag: boolean }
  | { readonly text: string }
  | { readonly texts: readonly string[] }
  | { readonly i32s: readonly number[] };

export type GgufFormat = keyof typeof formats;

export interface GgufTensor {
  readonly name: string;
  /** The fastest dimension last, as everywhere here. */
  readonly shape: readonly number[];
  readonly format: GgufFormat;
  read(): Promise<Float32Array>;
}

const BLOCK = 32;
const ALIGNMENT = 32;
const VERSION = 3;
const [U32, I32, F32, BOOL, STRING, ARRAY] = [4, 5, 6, 7, 8, 9];

/** Type numbers in the file, and bytes of so many values. */
const formats = {
  f32: { type: 0, bytes: (values: number) => 4 * values, encode: rawBytes },
  f16: {
    type: 1,
    bytes: (values: number) => 2 * values,
    encode: (values: Float32Array) => rawBytes(toHalves(values)),
  },
  q8_0: { type: 8, bytes: (values: number) => (values / BLOCK) * (BLOCK + 2), encode: toQ8 },
} as const;

/** Blocks of 32 numbers: their largest size / 127 as f16, then each number in that unit, rounded away from zero at a tie. */
function toQ8(values: Float32Array): Uint8Array {
  const out = new Uint8Array(formats.q8_0.bytes(values.length));
  const view = new DataView(out.buffer);
  for (let at = 0, to = 0; at < values.length; at += BLOCK, to += BLOCK + 2) {
    let most = 0;
    for (let i = at; i < at + BLOCK; i++) most = Math.max(most, Math.abs(values[i]!));
    const unit = Math.fround(most / 127);
    const inverse = unit === 0 ? 0 : Math.fround(1 / unit);
    view.setUint16(to, numberToHalf(unit), true);
    for (let i = 0; i < BLOCK; i++) {
      const scaled = Math.fround(values[at + i]! * inverse);
      view.setInt8(to + 2 + i, Math.sign(scaled) * Math.round(Math.abs(scaled)));
    }
  }
  return out;
}

const sizeOf = ({ shape, format }: GgufTensor): number =>
  formats[format].bytes(shape.reduce((a, b) => a * b, 1));

const padded = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** The file in pieces. */
export async function* writeGguf(
  metadata: ReadonlyMap<string, GgufValue>,
  tensors: readonly GgufTensor[],
): AsyncGenerator<Uint8Array, void> {
  const head = concatBytes(
    utf8('GGUF'),
    u32(VERSION),
    u64(tensors.length),
    u64(metadata.size),
    ...[...metadata].flatMap(([name, value]) => [text(name), valued(value)]),
    ...placed(tensors),
  );
  yield head;
  yield new Uint8Array(padded(head.length) - head.length);
  for (const tensor of tensors) {
    const bytes = formats[tensor.format].encode(await tensor.read());
    if (bytes.length !== sizeOf(tensor)) throw new TypeError(`${tensor.name} has another size`);
    yield bytes;
    yield new Uint8Array(padded(bytes.length) - bytes.length);
  }
}

function placed(tensors: readonly GgufTensor[]): readonly Uint8Array[] {
  let offset = 0;
  return tensors.flatMap((tensor) => {
    const { name, shape, format } = tensor;
    const dims = [...shape].reverse().map(u64);
    const parts = [text(name), u32(shape.length), ...dims, u32(formats[format].type), u64(offset)];
    offset += padded(sizeOf(tensor));
    return parts;
  });
}

function valued(value: GgufValue): Uint8Array {
  if ('u32' in value) return concatBytes(u32(U32!), u32(value.u32));
  if ('f32' in value) return concatBytes(u32(F32!), rawBytes(Float32Array.of(value.f32)));
  if ('flag' in value) return concatBytes(u32(BOOL!), Uint8Array.of(value.flag ? 1 : 0));
  if ('text' in value) return concatBytes(u32(STRING!), text(value.text));
  if ('texts' in value) {
    const { texts } = value;
    return concatBytes(u32(ARRAY!), u32(STRING!), u64(texts.length), ...texts.map(text));
  }
  const { i32s } = value;
  return concatBytes(u32(ARRAY!), u32(I32!), u64(i32s.length), ...i32s.map(u32));
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

function u64(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
}

function text(value: string): Uint8Array {
  const bytes = utf8(value);
  return concatBytes(u64(bytes.length), bytes);
}
