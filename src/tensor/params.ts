/**
 * A model's parameters: one flat vector and a layout that names its slices. Deltas, momentum, residuals and optimizer
 * moments are vectors over the same layout.
 */
import { ConfigError } from '../base/errors.ts';

/** f32 for everything we train; f64 for states of the Python reference. */
export type Vector = Float32Array | Float64Array;

/** Where one tensor of a layout is in the flat vector. */
export interface TensorSlot {
  readonly name: string;
  /** Row-major dimensions; `[]` is a scalar. */
  readonly shape: readonly number[];
  /** Where the tensor starts in the flat vector. */
  readonly offset: number;
  readonly size: number;
}

/** Tensors in state order. */
export interface Layout {
  readonly slots: readonly TensorSlot[];
  readonly size: number;
}

/** Parameters: one flat vector, and the layout that says which tensor is where. */
export interface Params {
  readonly layout: Layout;
  readonly values: Vector;
}

/** Lays tensors end to end in the order given. Throws on an empty list, an empty or repeated name, a bad dimension. */
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
  return { slots, size: offset };
}

/** Strings by Unicode code point (Python's order), not by UTF-16 code unit. */
export function compareCodePoints(a: string, b: string): number {
  const left = [...a];
  const right = [...b];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const difference = left[i]!.codePointAt(0)! - right[i]!.codePointAt(0)!;
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Same names and shapes in the same order. */
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
