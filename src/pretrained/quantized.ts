/**
 * The number formats of GGUF files, read as f32: plain floats, and blocks of small integers that share a scale (and, in some
 * formats, an offset). Every value is the f32 that llama.cpp's reference code computes.
 *
 * Formats: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; `d` and `m` below are f16 numbers of a block.
 */
import { brainToNumber, halfToNumber } from '../tensor/dtype.ts';

/** One number format: `values` numbers in every block of `bytes` bytes. */
export interface QuantizedFormat {
  readonly name: string;
  readonly values: number;
  readonly bytes: number;
  /** Writes the numbers of the block at `at` of `data` to `out`, from `to` on. */
  decode(data: DataView, at: number, out: Float32Array, to: number): void;
}

const SUPER = 256;

const f32: QuantizedFormat = {
  name: 'F32',
  values: 1,
  bytes: 4,
  decode(data, at, out, to) {
    out[to] = data.getFloat32(at, true);
  },
};

const f16: QuantizedFormat = {
  name: 'F16',
  values: 1,
  bytes: 2,
  decode(data, at, out, to) {
    out[to] = halfToNumber(data.getUint16(at, true));
  },
};

const bf16: QuantizedFormat = {
  name: 'BF16',
  values: 1,
  bytes: 2,
  decode(data, at, out, to) {
    out[to] = brainToNumber(data.getUint16(at, true));
  },
};

/** d, then 32 signed bytes q: d * q. */
const q80: QuantizedFormat = {
  name: 'Q8_0',
  values: 32,
  bytes: 34,
  decode(data, at, out, to) {
    const d = halfToNumber(data.getUint16(at, true));
    for (let i = 0; i < 32; i++) out[to + i] = d * data.getInt8(at + 2 + i);
  },
};

/** d, then 16 bytes with values i (low half) and i + 16 (high half): d * (q - 8). */
const q40: QuantizedFormat = {
  name: 'Q4_0',
  values: 32,
  bytes: 18,
  decode(data, at, out, to) {
    const d = halfToNumber(data.getUint16(at, true));
    for (let i = 0; i < 16; i++) {
      const q = data.getUint8(at + 2 + i);
      out[to + i] = d * ((q & 15) - 8);
      out[to + 16 + i] = d * ((q >> 4) - 8);
    }
  },
};

/** d, m, then 16 bytes as in Q4_0: d * q + m. */
const q41: QuantizedFormat = {
  name: 'Q4_1',
  values: 32,
  bytes: 20,
  decode(data, at, out, to) {
    const d = halfToNumber(data.getUint16(at, true));
    const m = halfToNumber(data.getUint16(at + 2, true));
    for (let i = 0; i < 16; i++) {
      const q = data.getUint8(at + 4 + i);
      out[to + i] = d * (q & 15) + m;
      out[to + 16 + i] = d * (q >> 4) + m;
    }
  },
};

/** d, m, then 8 scales and 8 offsets of 6 bits in 12 bytes, then 4 bits a value, 64 values in 32 bytes: d * s * q - m * o. */
const q4k: QuantizedFormat = {
  name: 'Q4_K',
  values: SUPER,
  bytes: 144,
  decode(data, at, out, to) {
    const d = halfToNumber(data.getUint16(at, true));
    const m = halfToNumber(data.getUint16(at + 2, true));
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
};

/** The low 4 bits of all values (128 bytes), their high 2 bits (64 bytes), 16 scales of a byte, d: d * s * (q - 32). */
const q6k: QuantizedFormat = {
  name: 'Q6_K',
  values: SUPER,
  bytes: 210,
  decode(data, at, out, to) {
    const d = halfToNumber(data.getUint16(at + 208, true));
    for (let i = 0; i < SUPER; i++) {
      const half = i >> 7;
      const quarter = (i >> 5) & 3;
      const low = data.getUint8(at + 64 * half + 32 * (quarter & 1) + (i & 31));
      const high = data.getUint8(at + 128 + 32 * half + (i & 31));
      const q = ((quarter < 2 ? low : low >> 4) & 15) | (((high >> (2 * quarter)) & 3) << 4);
      out[to + i] = d * data.getInt8(at + 192 + (i >> 4)) * (q - 32);
    }
  },
};

/** By the number that GGUF files give a tensor's type. */
export const quantizedFormats: ReadonlyMap<number, QuantizedFormat> = new Map([
  [0, f32],
  [1, f16],
  [2, q40],
  [3, q41],
  [8, q80],
  [12, q4k],
  [14, q6k],
  [30, bf16],
]);

/** The numbers in `bytes`, which hold whole blocks. */
export function dequantize(format: QuantizedFormat, bytes: Uint8Array): Float32Array {
  const blocks = bytes.length / format.bytes;
  const data = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const out = new Float32Array(blocks * format.values);
  for (let i = 0; i < blocks; i++) {
    format.decode(data, i * format.bytes, out, i * format.values);
  }
  return out;
}
