/** Flat parameter vectors with their layout, and the digest of a state (`model hash` of the Python reference). */

import { toHex, utf8 } from '../base/bytes.ts';
import { ConfigError } from '../base/errors.ts';
import { type CreateSha256, createSha256 } from '../base/hash.ts';
import type { Range } from './partial-vector.ts';

/** f32 for all models trained here; f64 for states of the Python reference. */
export type Vector = Float32Array | Float64Array;

/** Position of one tensor in the flat vector. */
export interface TensorSlot {
  readonly name: string;
  /** Row-major dimensions; `[]` is a scalar. */
  readonly shape: readonly number[];
  /** Index of the tensor's first value in the flat vector. */
  readonly offset: number;
  readonly size: number;
}

/** The tensors of a state, in order. */
export interface Layout {
  readonly slots: readonly TensorSlot[];
  readonly size: number;
  /** Slices of the full model, if it has MatFormer tiers; the layout of a smaller tier has the first ones. */
  readonly slices?: readonly Range[];
}

/** Returns the slices of the full model; without tiers all parameters are one slice. */
export const slicesOf = ({ slices, size }: Omit<Layout, 'slots'>): readonly Range[] =>
  slices ?? [{ from: 0, to: size }];

/** Returns the slices that a layout has. */
export const localSlices = (layout: Omit<Layout, 'slots'>): readonly Range[] =>
  slicesOf(layout).filter(({ to }) => to <= layout.size);

/** Returns the number of parameters of the full model. */
export const fullSize = (layout: Omit<Layout, 'slots'>): number => slicesOf(layout).at(-1)!.to;

/** Parameters: one flat vector with the layout of its tensors. */
export interface Params {
  readonly layout: Layout;
  readonly values: Vector;
}

/** Maximum parameters of one state, 32 GiB of 32-bit values. Larger models are refused before they are built. */
export const MOST_PARAMETERS = 2 ** 33;

/**
 * Lays tensors end to end in the order given. Throws a ConfigError on an empty list, an empty or repeated name, a bad
 * dimension, and too many parameters (`state/size`).
 */
export function createLayout(
  tensors: readonly { readonly name: string; readonly shape: readonly number[] }[],
): Layout {
  if (tensors.length === 0)
    throw new ConfigError('state/empty', 'a state needs at least one tensor');
  const names = new Set<string>();
  const slots: TensorSlot[] = [];
  let offset = 0;
  for (const { name, shape } of tensors) {
    if (name === '' || names.has(name)) {
      throw new ConfigError(
        'state/name',
        `tensor name ${JSON.stringify(name)} is empty or repeated`,
      );
    }
    if (!shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) {
      throw new ConfigError('state/shape', `tensor ${name} has an impossible shape [${shape}]`);
    }
    names.add(name);
    const size = shape.reduce((product, dim) => product * dim, 1);
    slots.push({ name, shape, offset, size });
    offset += size;
  }
  if (offset > MOST_PARAMETERS) {
    throw new ConfigError('state/size', `${offset} parameters are more than ${MOST_PARAMETERS}`, {
      hint: 'choose fewer or smaller layers',
    });
  }
  return { slots, size: offset };
}

/** Compares strings by Unicode code point (the order of Python), not by UTF-16 code unit. */
export function compareCodePoints(a: string, b: string): number {
  const left = [...a];
  const right = [...b];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const difference = left[i]!.codePointAt(0)! - right[i]!.codePointAt(0)!;
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Reports whether two layouts have the same names and shapes in the same order. */
export function sameLayout(a: Layout, b: Layout): boolean {
  return (
    a.size === b.size &&
    a.slots.length === b.slots.length &&
    a.slots.every((slot, i) => {
      const other = b.slots[i]!;
      return slot.name === other.name && slot.shape.join() === other.shape.join();
    })
  );
}

/** Reports whether no value is infinite or NaN. A loop: `every` would call a function for each value of a model. */
export function allFinite(values: Vector): boolean {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i]!)) return false;
  return true;
}

const BLOCK = 8192;
const IS_LITTLE_ENDIAN = new Uint8Array(Float64Array.of(1).buffer)[7] !== 0;

/**
 * Lowercase hex digest in state order; f32 values are widened to f64, so dtype does not matter, and -0 and 0 differ. A
 * platform may bring a faster hash.
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

/** Returns the values in their own type as little-endian bytes, which share their memory where the machine is so. */
export function bytesOfVector(values: Vector): Uint8Array {
  const { buffer, byteOffset, byteLength, BYTES_PER_ELEMENT: width } = values;
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  if (IS_LITTLE_ENDIAN) return bytes;
  const swapped = bytes.slice();
  for (let i = 0; i < byteLength; i += width) swapped.subarray(i, i + width).reverse();
  return swapped;
}

/** Returns values as little-endian f64 bytes; writes them into `block` unless they are in that form already. */
function littleEndian(values: Vector, block: Float64Array): Uint8Array {
  if (values instanceof Float64Array) return bytesOfVector(values);
  if (IS_LITTLE_ENDIAN) block.set(values);
  else {
    const view = new DataView(block.buffer);
    values.forEach((value, i) => {
      view.setFloat64(8 * i, value, true);
    });
  }
  return new Uint8Array(block.buffer, 0, 8 * values.length);
}

/** Encodes integers of 2 or 4 bytes each, little-endian. */
function words(width: 2 | 4, ...numbers: readonly number[]): Uint8Array {
  const out = new Uint8Array(width * numbers.length);
  const view = new DataView(out.buffer);
  numbers.forEach((number, i) => {
    if (width === 2) view.setUint16(2 * i, number, true);
    else view.setUint32(4 * i, number, true);
  });
  return out;
}
