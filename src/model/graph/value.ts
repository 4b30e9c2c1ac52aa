/** Typed values, the operands and results of ops. Shapes are static, so shape errors show while the graph is built. */
import type { DType, Shape } from '../onnx.ts';
import type { OpAttributes, OpName } from './signatures.ts';

/** A leading dimension of a graph input left open until run time; only `gather` may walk over it. */
export const ANY = -1;

export interface ValueType {
  readonly dtype: DType;
  readonly shape: Shape;
}

/** One tensor of a graph under construction. */
export interface Value extends ValueType {
  readonly id: number;
  readonly graph: Recorder;
}

/** The part of a graph that values point back to: it records one more op or constant. */
export interface Recorder {
  apply<K extends OpName>(
    op: K,
    inputs: readonly Value[],
    attributes: OpAttributes[K],
  ): readonly Value[];
  /** What a value is widened from, where it is: it is made anew for every op that reads it. */
  partsOf(value: Value): readonly Value[] | undefined;
  constant(type: ValueType, elements: ArrayLike<number>): Value;
  /** Records what `build` makes of `input` as one segment, which gradients may compute again instead of keeping it. */
  segment(input: Value, build: (input: Value) => Value): Value;
}

export const isFloat = (dtype: DType): boolean => dtype === 'f32' || dtype === 'f64';

export const sizeOf = (shape: Shape): number => shape.reduce((size, dim) => size * dim, 1);

export const sameShape = (a: Shape, b: Shape): boolean =>
  a.length === b.length && a.every((dim, i) => dim === b[i]);

/** An axis counted from the front; negative ones count from the back. */
export function frontAxis(axis: number, rank: number): number {
  const front = axis < 0 ? axis + rank : axis;
  if (front < 0 || front >= rank)
    throw new TypeError(`axis ${axis} does not exist in rank ${rank}`);
  return front;
}

/** The shape two operands share after NumPy broadcasting. */
export function broadcast(a: Shape, b: Shape): Shape {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const left = a[i - rank + a.length] ?? 1;
    const right = b[i - rank + b.length] ?? 1;
    if (left !== right && left !== 1 && right !== 1) {
      throw new TypeError(`[${a}] and [${b}] do not broadcast`);
    }
    return left === 1 ? right : left;
  });
}

/** `shape` with one dimension replaced. */
export const withDim = (shape: Shape, axis: number, dim: number): Shape =>
  shape.map((old, i) => (i === axis ? dim : old));
