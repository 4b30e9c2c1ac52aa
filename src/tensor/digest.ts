/** The state digest ("model hash") of the Python reference: SHA-256 over names, shapes and values as f64. */
import { toHex, utf8 } from '../base/bytes.ts';
import { type CreateSha256, createSha256 } from '../base/hash.ts';
import type { Params, Vector } from './params.ts';

const BLOCK = 8192;
const IS_LITTLE_ENDIAN = new Uint8Array(Float64Array.of(1).buffer)[7] !== 0;

/**
 * Lowercase hex digest in state order; f32 values are widened to f64, so -0 and 0 differ and dtype does not matter. A platform
 * may bring a faster hash.
 *
 * @example
 * ```ts
 * import { createLayout, stateDigest } from 'nostrain';
 *
 * const layout = createLayout([{ name: 'w', shape: [2] }]);
 * const digest = stateDigest({ layout, values: Float64Array.of(0.5, -1) });
 * digest === stateDigest({ layout, values: Float32Array.of(0.5, -1) }); // => true
 * ```
 */
export function stateDigest(
  { layout, values }: Params,
  create: CreateSha256 = createSha256,
): string {
  const hash = create();
  hash.update(words(4, layout.slots.length));
  const block = new Float64Array(BLOCK);
  for (const { name, shape, offset, size } of layout.slots) {
    const bytes = utf8(name);
    if (bytes.length > 0xffff)
      throw new RangeError(`tensor name of ${bytes.length} bytes cannot be hashed`);
    hash.update(words(2, bytes.length));
    hash.update(bytes);
    hash.update(words(2, shape.length));
    hash.update(words(4, ...shape));
    for (let from = 0; from < size; from += BLOCK) {
      const part = values.subarray(offset + from, offset + Math.min(size, from + BLOCK));
      hash.update(littleEndian(part, block));
    }
  }
  return toHex(hash.digest());
}

/** The bytes of values as f64, in the block where they are not that already. */
function littleEndian(values: Vector, block: Float64Array): Uint8Array {
  if (IS_LITTLE_ENDIAN && values instanceof Float64Array) {
    return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  }
  if (IS_LITTLE_ENDIAN) block.set(values);
  else {
    const view = new DataView(block.buffer);
    values.forEach((value, i) => {
      view.setFloat64(8 * i, value, true);
    });
  }
  return new Uint8Array(block.buffer, 0, 8 * values.length);
}

/** Little-endian integers of 2 or 4 bytes each. */
function words(width: 2 | 4, ...numbers: readonly number[]): Uint8Array {
  const out = new Uint8Array(width * numbers.length);
  const view = new DataView(out.buffer);
  numbers.forEach((number, i) => {
    if (width === 2) view.setUint16(2 * i, number, true);
    else view.setUint32(4 * i, number, true);
  });
  return out;
}
