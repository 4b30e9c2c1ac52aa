/** Computes nodes whose inputs are all known: shapes, ranges, masks and constants. */
import { broadcast, frontAxis, sizeOf } from '../graph/rule.ts';
import { axesOf, type Call, front, int, intsOf, list } from './call.ts';
import { kindOf } from './read-onnx.ts';
import { ints, type Tensor, type TensorKind } from './tensor.ts';

/** Maximum elements of a folded tensor; larger ones are computed in the graph. */
const MOST_FOLDED = 2 ** 22;

type Fold = (call: Call, inputs: readonly Tensor[]) => readonly Tensor[] | undefined;

/** Returns the results of a node with known inputs; undefined if it has to be recorded. */
export function fold(call: Call): readonly Tensor[] | undefined {
  const rule = Object.hasOwn(folds, call.type) ? folds[call.type] : undefined;
  return rule?.(call, call.inputs as readonly Tensor[]);
}

const tensor = (
  kind: TensorKind,
  shape: readonly number[],
  elements: ArrayLike<number>,
): Tensor => ({
  kind,
  shape,
  elements,
});

const strides = (shape: readonly number[]): number[] =>
  shape.map((_, i) => sizeOf(shape.slice(i + 1)));

/** Returns a number of elements. Throws a RangeError if it is too large to be computed here. */
function foldable(count: number): number {
  if (count <= MOST_FOLDED) return count;
  throw new RangeError(`a known tensor of ${count} elements is too large`);
}

/** Returns a view of a tensor: element `at` of the result is `offset + sum(index * stride)` of the tensor. */
function view(a: Tensor, shape: readonly number[], steps: readonly number[], offset = 0): Tensor {
  const elements = new Float64Array(foldable(sizeOf(shape)));
  const index = shape.map(() => 0);
  let from = offset;
  for (let at = 0; at < elements.length; at++) {
    elements[at] = a.elements[from]!;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      index[axis]! += 1;
      from += steps[axis]!;
      if (index[axis]! < shape[axis]!) break;
      from -= steps[axis]! * shape[axis]!;
      index[axis] = 0;
    }
  }
  return tensor(a.kind, shape, elements);
}

function expanded(a: Tensor, shape: readonly number[]): Tensor {
  const missing = shape.length - a.shape.length;
  const own = strides(a.shape);
  const steps = shape.map((_, i) => (a.shape[i - missing] === 1 ? 0 : (own[i - missing] ?? 0)));
  return view(a, shape, steps);
}

const unary =
  (compute: (a: number) => number): Fold =>
  (_, [a]) => [tensor(a!.kind, a!.shape, Float64Array.from(a!.elements, compute))];

const binary =
  (compute: (a: number, b: number, isInt: boolean) => number, kind?: TensorKind): Fold =>
  (_, inputs) => {
    const [first, ...rest] = inputs;
    const result = rest.reduce((a, b) => {
      const shape = broadcast(a.shape, b.shape);
      const [left, right] = [expanded(a, shape).elements, expanded(b, shape).elements];
      const isInt = a.kind !== 'float';
      const elements = Float64Array.from(left, (x, i) => compute(x, right[i]!, isInt));
      return tensor(kind ?? a.kind, shape, elements);
    }, first!);
    return [result];
  };

const compared = (compute: (a: number, b: number) => boolean): Fold =>
  binary((a, b) => Number(compute(a, b)), 'bool');

function reduced(
  start: number,
  join: (total: number, next: number) => number,
  isMean = false,
): Fold {
  return (call, [a]) => {
    const rank = a!.shape.length;
    const given = axesOf(call);
    if (given?.length === 0 && int(call, 'noop_with_empty_axes', 0) === 1) return [a!];
    const axes = front(given?.length ? given : a!.shape.map((_, i) => i), rank);
    const kept = a!.shape.map((dim, i) => (axes.includes(i) ? 1 : dim));
    const elements = new Float64Array(sizeOf(kept)).fill(start);
    const at = expanded(
      tensor(
        'int',
        kept,
        Float64Array.from(elements, (_, i) => i),
      ),
      a!.shape,
    );
    for (let i = 0; i < a!.elements.length; i++) {
      const target = at.elements[i]!;
      elements[target] = join(elements[target]!, a!.elements[i]!);
    }
    const count = a!.elements.length / elements.length;
    const isKept = int(call, 'keepdims', 1) === 1;
    const shape = isKept ? kept : a!.shape.filter((_, i) => !axes.includes(i));
    return [tensor(a!.kind, shape, isMean ? elements.map((sum) => sum / count) : elements)];
  };
}

const moved =
  (shapeOf: (call: Call, a: Tensor) => readonly number[]): Fold =>
  (call, [a]) => [tensor(a!.kind, shapeOf(call, a!), a!.elements)];

/** Returns the shape that a Reshape asks for: 0 keeps a dimension, -1 is what is left. */
export function reshapedTo(call: Call, from: readonly number[], to: readonly number[]): number[] {
  const keeps = int(call, 'allowzero', 0) === 0;
  const shape = to.map((dim, i) => (dim === 0 && keeps ? (from[i] ?? 0) : dim));
  const open = shape.indexOf(-1);
  if (open >= 0) shape[open] = sizeOf(from) / -sizeOf(shape);
  const { exported, actual } = call.batch;
  if (sizeOf(shape) !== sizeOf(from) && exported !== null && shape[0]! % exported === 0) {
    shape[0] = (shape[0]! / exported) * actual;
  }
  return shape;
}

export function squeezedShape(call: Call, { shape }: Pick<Tensor, 'shape'>): readonly number[] {
  const axes = axesOf(call);
  const gone = axes && front(axes, shape.length);
  return shape.filter((dim, i) => (gone ? !gone.includes(i) : dim !== 1));
}

export function unsqueezedShape(call: Call, { shape }: Pick<Tensor, 'shape'>): readonly number[] {
  const axes = axesOf(call)!;
  const wide = front(axes, shape.length + axes.length);
  const rest = [...shape];
  return Array.from({ length: shape.length + axes.length }, (_, i) =>
    wide.includes(i) ? 1 : rest.shift()!,
  );
}

/** The range of one axis that a Slice takes. */
export interface SliceRange {
  readonly axis: number;
  readonly start: number;
  readonly step: number;
  readonly count: number;
}

/** Returns the ranges of a Slice node. */
export function rangesOf(call: Call, shape: readonly number[]): readonly SliceRange[] {
  const [starts, ends] = [list(call, 1)!, list(call, 2)!];
  const axes = list(call, 3) ?? starts.map((_, i) => i);
  const steps = list(call, 4) ?? starts.map(() => 1);
  return axes.map((given, i) => {
    const axis = frontAxis(given, shape.length);
    const [dim, step] = [shape[axis]!, steps[i]!];
    const low = step > 0 ? 0 : -1;
    const high = step > 0 ? dim : dim - 1;
    const bound = (at: number) => Math.min(high, Math.max(low, at < 0 ? at + dim : at));
    const start = Math.max(0, bound(starts[i]!));
    return { axis, start, step, count: Math.max(0, Math.ceil((bound(ends[i]!) - start) / step)) };
  });
}

const sliced: Fold = (call, [a]) => {
  const shape = [...a!.shape];
  const steps = strides(a!.shape);
  let offset = 0;
  for (const { axis, start, step, count } of rangesOf(call, a!.shape)) {
    shape[axis] = count;
    offset += start * steps[axis]!;
    steps[axis]! *= step;
  }
  return [view(a!, shape, steps, offset)];
};

const gathered: Fold = (call, [a, at]) => {
  const axis = frontAxis(int(call, 'axis', 0), a!.shape.length);
  const dim = a!.shape[axis]!;
  const [outer, inner] = [sizeOf(a!.shape.slice(0, axis)), sizeOf(a!.shape.slice(axis + 1))];
  foldable(outer * inner * at!.elements.length);
  const elements: number[] = [];
  for (let i = 0; i < outer; i++) {
    for (const index of Array.from(at!.elements)) {
      const from = (i * dim + (index < 0 ? index + dim : index)) * inner;
      for (let j = 0; j < inner; j++) elements.push(a!.elements[from + j]!);
    }
  }
  const shape = [...a!.shape.slice(0, axis), ...at!.shape, ...a!.shape.slice(axis + 1)];
  return [tensor(a!.kind, shape, elements)];
};

const joined: Fold = (call, parts) => {
  const first = parts[0]!;
  const axis = frontAxis(int(call, 'axis', 0), first.shape.length);
  const outer = sizeOf(first.shape.slice(0, axis));
  foldable(parts.reduce((sum, part) => sum + part.elements.length, 0));
  const elements: number[] = [];
  for (let i = 0; i < outer; i++) {
    for (const { elements: own } of parts) {
      const length = own.length / outer;
      for (let j = 0; j < length; j++) elements.push(own[i * length + j]!);
    }
  }
  const dim = parts.reduce((sum, { shape }) => sum + shape[axis]!, 0);
  return [tensor(first.kind, first.shape.with(axis, dim), elements)];
};

const transposed: Fold = (call, [a]) => {
  const order = intsOf(call, 'perm') ?? a!.shape.map((_, i) => i).reverse();
  const own = strides(a!.shape);
  return [
    view(
      a!,
      order.map((axis) => a!.shape[axis]!),
      order.map((axis) => own[axis]!),
    ),
  ];
};

/** Keeps the upper or lower triangle of the last two axes. */
const triangle: Fold = (call, [a, offset]) => {
  const [rows, columns] = a!.shape.slice(-2) as [number, number];
  const isUpper = int(call, 'upper', 1) === 1;
  const k = offset?.elements[0] ?? 0;
  const kept = Float64Array.from(a!.elements, (element, i) => {
    const distance = (i % columns) - (Math.floor(i / columns) % rows) - k;
    return (isUpper ? distance >= 0 : distance <= 0) ? element : 0;
  });
  return [tensor(a!.kind, a!.shape, kept)];
};

const cast = (kind: TensorKind): Fold =>
  unary(
    kind === 'bool' ? (a) => Number(a !== 0) : kind === 'int' ? Math.trunc : (a) => Math.fround(a),
  );

function castTo(kind: TensorKind, call: Call, a: Tensor): readonly Tensor[] {
  const [result] = cast(kind)(call, [a])!;
  return [{ ...result!, kind }];
}

const toEven = (a: number): number => {
  const near = Math.round(a);
  return near - a === 0.5 && near % 2 !== 0 ? near - 1 : near;
};

function isFoldable(shape: readonly number[]): boolean {
  return sizeOf(shape) <= MOST_FOLDED;
}

const folds: Readonly<Record<string, Fold>> = {
  Identity: (_, [a]) => [a!],
  Neg: unary((a) => -a),
  Abs: unary(Math.abs),
  Sqrt: unary(Math.sqrt),
  Exp: unary(Math.exp),
  Log: unary(Math.log),
  Sin: unary(Math.sin),
  Cos: unary(Math.cos),
  Floor: unary(Math.floor),
  Ceil: unary(Math.ceil),
  Round: unary(toEven),
  Reciprocal: unary((a) => 1 / a),
  Not: unary((a) => Number(a === 0)),
  Add: binary((a, b) => a + b),
  Sub: binary((a, b) => a - b),
  Mul: binary((a, b) => a * b),
  Div: binary((a, b, isInt) => (isInt ? Math.trunc(a / b) : a / b)),
  Mod: (call, inputs) =>
    binary((a, b) => (int(call, 'fmod', 0) === 1 ? a % b : a - b * Math.floor(a / b)))(
      call,
      inputs,
    ),
  Pow: binary((a, b) => a ** b),
  Min: binary((a, b) => Math.min(a, b)),
  Max: binary((a, b) => Math.max(a, b)),
  And: binary((a, b) => a & b),
  Or: binary((a, b) => a | b),
  Xor: binary((a, b) => a ^ b),
  Equal: compared((a, b) => a === b),
  Less: compared((a, b) => a < b),
  LessOrEqual: compared((a, b) => a <= b),
  Greater: compared((a, b) => a > b),
  GreaterOrEqual: compared((a, b) => a >= b),
  Where: (_, [condition, a, b]) => {
    const shape = broadcast(condition!.shape, broadcast(a!.shape, b!.shape));
    const [yes, no] = [expanded(a!, shape).elements, expanded(b!, shape).elements];
    const { elements } = expanded(condition!, shape);
    return [
      tensor(
        a!.kind,
        shape,
        Float64Array.from(elements, (is, i) => (is ? yes : no)[i]!),
      ),
    ];
  },
  ReduceSum: reduced(0, (total, next) => total + next),
  ReduceMean: reduced(0, (total, next) => total + next, true),
  ReduceProd: reduced(1, (total, next) => total * next),
  ReduceMax: reduced(Number.NEGATIVE_INFINITY, Math.max),
  ReduceMin: reduced(Number.POSITIVE_INFINITY, Math.min),
  Reshape: (call, [a, to]) => [
    tensor(a!.kind, reshapedTo(call, a!.shape, Array.from(to!.elements)), a!.elements),
  ],
  Flatten: moved((call, { shape }) => {
    const axis = int(call, 'axis', 1);
    const at = axis < 0 ? axis + shape.length : axis;
    return [sizeOf(shape.slice(0, at)), sizeOf(shape.slice(at))];
  }),
  Squeeze: moved(squeezedShape),
  Unsqueeze: moved(unsqueezedShape),
  Transpose: transposed,
  Slice: sliced,
  Gather: gathered,
  Concat: joined,
  Trilu: triangle,
  Expand: (_, [a, to]) => {
    const shape = broadcast(a!.shape, Array.from(to!.elements));
    return isFoldable(shape) ? [expanded(a!, shape)] : undefined;
  },
  Tile: (_, [a, times]) => {
    const shape = a!.shape.map((dim, i) => dim * times!.elements[i]!);
    if (!isFoldable(shape)) return undefined;
    const inner = a!.shape.flatMap((dim, i) => [times!.elements[i]!, dim]);
    const own = strides(a!.shape).flatMap((step) => [0, step]);
    return [{ ...view(a!, inner, own), shape }];
  },
  Cast: (call, [a]) => castTo(kindOf(int(call, 'to', 1)), call, a!),
  CastLike: (call, [a, like]) => castTo(like!.kind, call, a!),
  Size: (_, [a]) => [{ kind: 'int', shape: [], elements: [a!.elements.length] }],
  ConstantOfShape: (call, [to]) => {
    const shape = Array.from(to!.elements);
    if (!isFoldable(shape)) return undefined;
    const kind = int(call, 'kind', 0);
    const elements = new Float64Array(sizeOf(shape)).fill(int(call, 'fill', 0));
    return [tensor((['float', 'int', 'bool'] as const)[kind] ?? 'float', shape, elements)];
  },
  Range: (_, [start, limit, delta]) => {
    const [from, to, by] = [start!, limit!, delta!].map(({ elements }) => elements[0]!);
    const count = Math.max(0, Math.ceil((to! - from!) / by!));
    if (!isFoldable([count])) return undefined;
    const elements = Float64Array.from({ length: count }, (_, i) => from! + i * by!);
    return [tensor(start!.kind, [count], elements)];
  },
};

/** Reports whether an operator is computed where its inputs are known. */
export const canFold = (type: string): boolean => Object.hasOwn(folds, type);

/** Returns the result of a Shape node. */
export function shapeOf(call: Call, shape: readonly number[]): Tensor {
  const bound = (at: number) =>
    Math.min(shape.length, Math.max(0, at < 0 ? at + shape.length : at));
  return ints(shape.slice(bound(int(call, 'start', 0)), bound(int(call, 'end', shape.length))));
}
