/**
 * Reads the weights of a published model from safetensors files, one or several, one tensor at a time, and checks them
 * against the model's list of tensors. Also decodes the number formats of GGUF for `gguf.ts`.
 */

import { ConfigError, type NostrainError, safeLine } from '../base/errors.ts';
import { isObject, type Untyped } from '../base/shape.ts';
import type { TensorSpec } from '../model/architectures/architecture.ts';
import { brainToNumber, halfToNumber, readNumbers } from '../tensor/dtype.ts';
import { allFinite } from '../tensor/params.ts';
import {
  MAX_HEADER_BYTES,
  readSafetensorsEntries,
  type SafetensorsEntry,
} from '../tensor/safetensors.ts';

/** A file that is read in ranges, so that it is never in memory as a whole. */
export interface ByteSource {
  /** Name for messages. */
  readonly name: string;
  /** Length in bytes. */
  readonly size: number;
  /** Reads the bytes `from` to `to - 1`, both within the size. */
  read(from: number, to: number): Promise<Uint8Array>;
}

/** The files of one model by their names. */
export interface ModelFiles {
  /** Name of the model for messages. */
  readonly name: string;
  /** Opens a file; undefined if it does not exist. */
  open(file: string): Promise<ByteSource | undefined>;
}

/** Returns a source over bytes in memory. */
export const sourceOf = (name: string, bytes: Uint8Array): ByteSource => ({
  name,
  size: bytes.length,
  read: (from, to) => Promise.resolve(bytes.subarray(from, to)),
});

/** One tensor of a file. */
export interface StoredTensor {
  readonly shape: readonly number[];
  /** The number format in the file, such as F32, bf16 or Q4_K. */
  readonly format: string;
  /** Bytes in the file. */
  readonly bytes: number;
  /** Reads all values, in row-major order. */
  read(): Promise<Float32Array>;
}

export type StoredTensors = ReadonlyMap<string, StoredTensor>;

export const SINGLE = 'model.safetensors';
export const INDEX = 'model.safetensors.index.json';

/** Tensors in files that are not weights: tables that programs compute themselves. */
const COMPUTED = [/\brotary_emb\.inv_freq$/, /\battn\.(bias|masked_bias)$/];

/** Returns the names of the weight files, in order. Throws a ConfigError if the folder has no weights. */
export async function weightFiles(files: ModelFiles): Promise<readonly string[]> {
  if (await files.open(SINGLE)) return [SINGLE];
  const index = await files.open(INDEX);
  if (!index) {
    throw new ConfigError('model/weights', `${files.name} has no ${SINGLE}, nor ${INDEX}`, {
      hint: 'name the folder of a model whose weights are safetensors',
    });
  }
  const { weight_map: map } = await readJson(index);
  const names = isObject(map) ? Object.values(map) : [];
  const shards = [...new Set(names)].sort();
  if (shards.length === 0 || !shards.every(isFileName)) {
    throw wrong(index, 'weight_map does not name files of this folder');
  }
  return shards;
}

const isFileName = (value: unknown): value is string =>
  typeof value === 'string' && /^[\w][\w.-]*\.safetensors$/.test(value);

/** Opens the tensors of all files by name. Throws a ConfigError (`model/weights`) if a file is missing or damaged. */
export async function openSafetensors(
  files: ModelFiles,
  names: readonly string[],
): Promise<StoredTensors> {
  const tensors = new Map<string, StoredTensor>();
  for (const name of names) {
    const source = await files.open(name);
    if (!source) {
      throw new ConfigError('model/weights', `${files.name} lacks ${name}, which its index names`, {
        hint: 'download that file too',
      });
    }
    for (const [tensor, stored] of await openShard(source)) {
      if (tensors.has(tensor)) throw wrong(source, `${safeLine(tensor)} is also in another file`);
      tensors.set(tensor, stored);
    }
  }
  return tensors;
}

async function openShard(source: ByteSource): Promise<StoredTensors> {
  const { entries, start } = await readShard(source);
  return new Map(entries.map((entry) => [entry.name, storedTensor(source, entry, start)] as const));
}

/**
 * Reads the header of a safetensors file; `start` is the offset of the data. Throws a ConfigError (`model/weights`).
 */
export async function readShard(source: ByteSource): Promise<{
  readonly entries: readonly SafetensorsEntry[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly start: number;
}> {
  const start = await headerEnd(source);
  const header = readSafetensorsEntries(await source.read(8, start), source.size - start);
  if (header.ok) return { ...header.value, start };
  const { at, message } = header.issue;
  throw wrong(source, safeLine(`${at}: ${message}`));
}

async function headerEnd(source: ByteSource): Promise<number> {
  if (source.size < 8) throw wrong(source, 'the file is shorter than 8 bytes');
  const first = await source.read(0, 8);
  const length = Number(new DataView(first.buffer, first.byteOffset, 8).getBigUint64(0, true));
  if (length > MAX_HEADER_BYTES || 8 + length > source.size) {
    throw wrong(source, `a header of ${length} bytes does not fit a file of ${source.size} bytes`);
  }
  return 8 + length;
}

const storedTensor = (
  source: ByteSource,
  { dtype, shape, from, to }: SafetensorsEntry,
  start: number,
): StoredTensor => ({
  shape,
  format: dtype,
  bytes: to - from,
  read: async () => {
    const values = readNumbers(dtype, await source.read(start + from, start + to));
    return values instanceof Float32Array ? values : Float32Array.from(values);
  },
});

/**
 * Returns the tensors of a file under the model's names; files without the language-model head lack the `prefix` of
 * names. Throws a ConfigError (`model/weights`) if a tensor is missing, unexpected or of another shape.
 */
export function matchTensors(
  stored: StoredTensors,
  wanted: readonly Pick<TensorSpec, 'name' | 'shape'>[],
  { file, prefix, tiedHead }: { file: string; prefix: string; tiedHead?: string | undefined },
): StoredTensors {
  const full = (name: string): string =>
    stored.has(name) && wanted.some((one) => one.name === prefix + name) ? prefix + name : name;
  const named = new Map([...stored].map(([name, tensor]) => [full(name), tensor] as const));
  const missing = wanted.filter(({ name }) => !named.has(name)).map(({ name }) => name);
  if (missing.length > 0) throw mismatch(file, `lacks ${list(missing)}`);
  const known = new Set(wanted.map(({ name }) => name));
  const extra = [...named.keys()].filter(
    (name) => !known.has(name) && name !== tiedHead && !COMPUTED.some((one) => one.test(name)),
  );
  if (extra.length > 0) throw mismatch(file, `has unexpected tensors: ${list(extra)}`);
  return new Map(
    wanted.map(({ name, shape }) => {
      const tensor = named.get(name)!;
      if (tensor.shape.join() === shape.join()) return [name, tensor] as const;
      const [actual, expectedShape] = [tensor.shape.join(' x '), shape.join(' x ')];
      throw mismatch(
        file,
        `has ${safeLine(name)} as ${actual}, but config.json implies ${expectedShape}`,
      );
    }),
  );
}

const list = (names: readonly string[]): string =>
  safeLine(names.slice(0, 3).join(', ')) +
  (names.length > 3 ? ` and ${names.length - 3} more` : '');

const mismatch = (file: string, what: string): NostrainError =>
  new ConfigError('model/weights', `${file} ${what}`, {
    hint: 'use the config.json that was published with these weights',
  });

/** Reads a tensor. Throws a ConfigError (`model/weights`) if a value is not finite. */
export async function readFinite(name: string, tensor: StoredTensor): Promise<Float32Array> {
  const values = await tensor.read();
  if (allFinite(values)) return values;
  const at = values.findIndex((value) => !Number.isFinite(value));
  throw new ConfigError('model/weights', `${safeLine(name)} holds ${values[at]} at ${at}`, {
    hint: 'these weights are damaged: download the file again, or use another one',
  });
}

const MAX_JSON_BYTES = 64 * 1024 * 1024;

/** Reads a JSON object from a file. Throws a ConfigError (`model/json`). */
export async function readJson(source: ByteSource): Promise<Untyped> {
  if (source.size > MAX_JSON_BYTES)
    throw wrong(source, `the file is too large (${source.size} bytes)`);
  const bytes = await source.read(0, source.size);
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw wrong(source, 'the file is not JSON', cause);
  }
  if (isObject(value)) return value;
  throw wrong(source, 'the file is not a JSON object');
}

const wrong = (source: ByteSource, reason: string, cause?: unknown): ConfigError =>
  new ConfigError('model/weights', `${source.name}: ${reason}`, {
    hint: 'the file may be truncated: download it again',
    cause,
  });

/**
 * A number format of GGUF files (github.com/ggml-org/ggml/blob/master/docs/gguf.md): `values` numbers in each block of
 * `bytes` bytes. Every value is the f32 that llama.cpp's reference code computes. In the comments below, `d` and `m`
 * are f16 numbers of a block.
 */
export interface QuantizedFormat {
  readonly name: string;
  readonly values: number;
  readonly bytes: number;
  /** Decodes the block at byte `at` of `data` into `out`, from index `to` on. */
  decode(data: DataView, at: number, out: Float32Array, to: number): void;
}

const SUPER = 256;

const half = (data: DataView, at: number): number => halfToNumber(data.getUint16(at, true));

/** Returns a format without blocks. */
const plain = (
  name: string,
  bytes: number,
  read: (data: DataView, at: number) => number,
): QuantizedFormat => ({
  name,
  values: 1,
  bytes,
  decode: (data, at, out, to) => {
    out[to] = read(data, at);
  },
});

/** Formats by the type number in GGUF files. */
export const quantizedFormats: ReadonlyMap<number, QuantizedFormat> = new Map([
  [0, plain('F32', 4, (data, at) => data.getFloat32(at, true))],
  [1, plain('F16', 2, half)],
  [30, plain('BF16', 2, (data, at) => brainToNumber(data.getUint16(at, true)))],
  [
    2,
    /** d, then 16 bytes with values i (low half) and i + 16 (high half): d * (q - 8). */
    {
      name: 'Q4_0',
      values: 32,
      bytes: 18,
      decode(data, at, out, to) {
        const d = half(data, at);
        for (let i = 0; i < 16; i++) {
          const q = data.getUint8(at + 2 + i);
          out[to + i] = d * ((q & 15) - 8);
          out[to + 16 + i] = d * ((q >> 4) - 8);
        }
      },
    },
  ],
  [
    3,
    /** d, m, then 16 bytes as in Q4_0: d * q + m. */
    {
      name: 'Q4_1',
      values: 32,
      bytes: 20,
      decode(data, at, out, to) {
        const d = half(data, at);
        const m = half(data, at + 2);
        for (let i = 0; i < 16; i++) {
          const q = data.getUint8(at + 4 + i);
          out[to + i] = d * (q & 15) + m;
          out[to + 16 + i] = d * (q >> 4) + m;
        }
      },
    },
  ],
  [
    8,
    /** d, then 32 signed bytes q: d * q. */
    {
      name: 'Q8_0',
      values: 32,
      bytes: 34,
      decode(data, at, out, to) {
        const d = half(data, at);
        for (let i = 0; i < 32; i++) out[to + i] = d * data.getInt8(at + 2 + i);
      },
    },
  ],
  [
    12,
    /** d, m, 8 scales and 8 offsets of 6 bits in 12 bytes, then 4 bits per value: d * s * q - m * o. */
    {
      name: 'Q4_K',
      values: SUPER,
      bytes: 144,
      decode(data, at, out, to) {
        const d = half(data, at);
        const m = half(data, at + 2);
        const packed = (i: number) => data.getUint8(at + 4 + i);
        for (let part = 0; part < 8; part++) {
          const [scale, offset] =
            part < 4
              ? [packed(part) & 63, packed(part + 4) & 63]
              : [
                  (packed(part + 4) & 15) | ((packed(part - 4) >> 6) << 4),
                  (packed(part + 4) >> 4) | ((packed(part) >> 6) << 4),
                ];
          const from = at + 16 + 32 * (part >> 1);
          const shift = part % 2 === 0 ? 0 : 4;
          for (let i = 0; i < 32; i++) {
            const q = (data.getUint8(from + i) >> shift) & 15;
            out[to + 32 * part + i] = d * scale * q - m * offset;
          }
        }
      },
    },
  ],
  [
    14,
    /** Low 4 bits of all values (128 bytes), high 2 bits (64 bytes), 16 scales of a byte, d: d * s * (q - 32). */
    {
      name: 'Q6_K',
      values: SUPER,
      bytes: 210,
      decode(data, at, out, to) {
        const d = half(data, at + 208);
        for (let i = 0; i < SUPER; i++) {
          const side = i >> 7;
          const quarter = (i >> 5) & 3;
          const low = data.getUint8(at + 64 * side + 32 * (quarter & 1) + (i & 31));
          const high = data.getUint8(at + 128 + 32 * side + (i & 31));
          const q = ((quarter < 2 ? low : low >> 4) & 15) | (((high >> (2 * quarter)) & 3) << 4);
          out[to + i] = d * data.getInt8(at + 192 + (i >> 4)) * (q - 32);
        }
      },
    },
  ],
]);

/** Decodes `bytes`, which must be whole blocks. */
export function dequantize(format: QuantizedFormat, bytes: Uint8Array): Float32Array {
  const blocks = bytes.length / format.bytes;
  const data = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = new Float32Array(blocks * format.values);
  for (let i = 0; i < blocks; i++) {
    format.decode(data, i * format.bytes, out, i * format.values);
  }
  return out;
}
