/** Element-wise arithmetic on flat vectors of one layout: a new vector each time, in the storage type of the left one. */
import { ConfigError } from '../base/errors.ts';
import { type Layout, type Params, sameLayout, type Vector } from './params.ts';

/** a - b. */
export const subtract = <T extends Vector>(a: T, b: Vector): T => zip(a, b, (x, y) => x - y);

/** a + b. */
export const add = <T extends Vector>(a: T, b: Vector): T => zip(a, b, (x, y) => x + y);

function zip<T extends Vector>(a: T, b: Vector, combine: (x: number, y: number) => number): T {
  if (a.length !== b.length) throw new RangeError(`${a.length} values against ${b.length}`);
  const out = a.slice() as T;
  for (let i = 0; i < out.length; i++) out[i] = combine(a[i]!, b[i]!);
  return out;
}

/** How far one state is from another: after - before, in the order of `before`. */
export function difference(before: Params, after: Params): Params {
  assertCompatible(before.layout, after.layout);
  return { layout: before.layout, values: subtract(after.values, before.values) };
}

/** Throws unless both layouts hold the same tensors in the same order, naming the first that differs. */
export function assertCompatible(left: Layout, right: Layout): void {
  if (sameLayout(left, right)) return;
  const other = new Map(right.slots.map((slot) => [slot.name, slot.shape.join('x')]));
  for (const { name, shape } of left.slots) {
    const found = other.get(name);
    if (found === undefined) throw new ConfigError('state/missing', `tensor ${name} is missing`);
    if (found !== shape.join('x')) {
      throw new ConfigError('state/shape', `tensor ${name} is ${found}, not ${shape.join('x')}`);
    }
    other.delete(name);
  }
  const [extra] = other.keys();
  throw new ConfigError(
    'state/incompatible',
    extra === undefined ? 'tensors are in another order' : `tensor ${extra} is one too many`,
  );
}
