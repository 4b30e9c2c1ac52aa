/** The state digest ("model hash") of the Python reference: SHA-256 over names, shapes and values as f64. */
import { toHex, utf8 } from '../base/bytes.ts';
import { createSha256 } from '../base/hash.ts';
import type { Params } from './params.ts';

const BLOCK = 8192;

/**
 * Lowercase hex digest in state order; f32 values are widened to f64, so -0 and 0 differ and dtype does not matter.
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
export function stateDigest({ layout, values }: Params): string {
  const hash = createSha256();
  hash.update(words(4, layout.slots.length));
  const block = new Uint8Array(BLOCK * 8);
  const view = new DataView(block.buffer);
  for (const { name, shape, offset, size } of layout.slots) {
    const bytes = utf8(name);
    if (bytes.length > 0xffff)
      throw new RangeError(`tensor name of ${bytes.length} bytes cannot be hashed`);
    hash.update(words(2, bytes.length));
    hash.update(bytes);
    hash.update(words(2, shape.length));
    hash.update(words(4, ...shape));
    for (let from = 0; from < size; from += BLOCK) {
      const count = Math.min(BLOCK, size - from);
      for (let i = 0; i < count; i++) view.setFloat64(8 * i, values[offset + from + i]!, true);
      hash.update(block.subarray(0, 8 * count));
    }
  }
  return toHex(hash.digest());
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
