/**
 * The ops as functions over values, exported as `ops`. A plain number is a scalar constant of the other operand's type.
 */
import type { DType, Shape } from '../onnx.ts';
import type { OpAttributes, OpName } from './rule.ts';
import { ANY, frontAxis, isFloat, sameShape, sizeOf, type Value } from './rule.ts';

export type Operand = Value | number;

/** The one result of an op. */
const apply = <K extends OpName>(
  op: K,
  inputs: readonly [Value, ...Value[]],
  attributes: OpAttributes[K],
): Value => inputs[0].graph.apply(op, fresh(inputs), attributes)[0]!;

/** A widened value is never kept: it is made anew for every op that reads it, after the op's other operands. */
function fresh(inputs: readonly Value[]): readonly Value[] {
  const partsOf = (value: Value) => value.graph.partsOf(value);
  const other = inputs.find((value) => !partsOf(value) && value.shape.length > 0);
  if (!other) return inputs;
  return inputs.map((value) => {
    const [bits, ...scales] = partsOf(value) ?? [];
    return bits ? widen([after(bits, other), ...scales], value.dtype as 'f32') : value;
  });
}

/** Picks along axis 0, for what is widened among the bits that it is widened from. */
function picked(a: Value, pick: (part: Value) => Value): Value {
  const [bits, ...scales] = a.graph.partsOf(a) ?? [];
  return bits ? widen([pick(bits), ...scales.map(pick)], a.dtype as 'f32') : pick(a);
}

/** A constant of the same element type and graph as `like`. */
export const constantLike = (like: Value, shape: Shape, elements: ArrayLike<number>): Value =>
  like.graph.constant({ dtype: like.dtype, shape }, elements);

/** `shape` filled with one number. */
export const filled = (like: Value, shape: Shape, fill: number): Value =>
  constantLike(like, shape, new Float64Array(sizeOf(shape)).fill(fill));

/** Ops without attributes. */
type PlainOp = { [K in OpName]: [keyof OpAttributes[K]] extends [never] ? K : never }[OpName];

const unary = (op: PlainOp) => (a: Value) => apply(op, [a], {});

const binary = (op: PlainOp) => (a: Operand, b: Operand) => {
  if (typeof a !== 'number') {
    return apply(op, [a, typeof b === 'number' ? constantLike(a, [], [b]) : b], {});
  }
  if (typeof b === 'number') throw new TypeError(`${op} needs at least one value`);
  return apply(op, [constantLike(b, [], [a]), b], {});
};

export const add = binary('add');
export const sub = binary('sub');
export const mul = binary('mul');
export const div = binary('div');
export const pow = binary('pow');
export const maximum = binary('maximum');
export const minimum = binary('minimum');
export const equal = binary('equal');
export const less = binary('less');
export const greater = binary('greater');

export const not = unary('not');
export const neg = unary('neg');
export const abs = unary('abs');
export const sign = unary('sign');
export const exp = unary('exp');
export const log = unary('log');
export const sqrt = unary('sqrt');
export const erf = unary('erf');
export const sin = unary('sin');
export const cos = unary('cos');
export const tanh = unary('tanh');
export const sigmoid = unary('sigmoid');
export const relu = unary('relu');
/** a * (1 + erf a): GELU up to a scaling of its input and result by the square root of 2. */
export const erfGate = (a: Value): Value => apply('erfGate', [a], {});
/** Over the last axis. */
export const softmax = unary('softmax');
/** Over the last axis. */
export const logSoftmax = unary('logSoftmax');

export const square = (a: Value): Value => mul(a, a);

export const clip = (a: Value, low: number, high: number): Value =>
  apply('clip', [a], { low, high });

/** `a` where the condition holds, else `b`. */
export const where = (condition: Value, a: Value, b: Value): Value =>
  apply('where', [condition, a, b], {});

export const cast = (a: Value, to: DType): Value =>
  a.dtype === to ? a : apply('cast', [a], { to });

/** The same elements in another shape, one of whose dimensions may be -1: whatever the others leave. */
export const reshape = (a: Value, wanted: Shape): Value => {
  const shape = withoutOpen(a.shape, wanted);
  return sameShape(a.shape, shape) ? a : apply('reshape', [a], { shape });
};

function withoutOpen(from: Shape, to: Shape): Shape {
  const at = to.indexOf(ANY);
  // what is open until run time stays so
  if (at < 0 || from.includes(ANY)) return to;
  const [size, rest] = [sizeOf(from), -sizeOf(to)];
  if (to.indexOf(ANY, at + 1) >= 0) throw new TypeError(`[${to}] has more than one -1`);
  if (rest <= 0 || size % rest !== 0) throw new TypeError(`[${from}] does not fit into [${to}]`);
  return to.with(at, size / rest);
}

export const flatten = (a: Value): Value => reshape(a, [sizeOf(a.shape)]);

/** Permutes the axes; without an order it swaps the last two. */
export function transpose(a: Value, order?: readonly number[]): Value {
  const axes = a.shape.map((_, i) => i);
  const swapped = [...axes.slice(0, -2), axes.length - 1, axes.length - 2];
  return apply('transpose', [a], { order: order ?? swapped });
}

export const expand = (a: Value, shape: Shape): Value =>
  sameShape(a.shape, shape) ? a : apply('expand', [a], { shape });

export const concat = (parts: readonly [Value, ...Value[]], axis: number): Value =>
  parts.length === 1
    ? parts[0]
    : apply('concat', parts, { axis: frontAxis(axis, parts[0].shape.length) });

/** Pieces of the given sizes along an axis. */
export const split = (a: Value, axis: number, sizes: readonly number[]): readonly Value[] =>
  sizes.length === 1
    ? [a]
    : a.graph.apply('split', [a], { axis: frontAxis(axis, a.shape.length), sizes });

export const slice = (a: Value, axis: number, start: number, end: number): Value => {
  const front = frontAxis(axis, a.shape.length);
  const cut = (part: Value) => apply('slice', [part], { axis: front, start, end });
  return front === 0 ? picked(a, cut) : cut(a);
};

/** Zeros before and after along an axis. */
export const pad = (a: Value, axis: number, before: number, after: number): Value =>
  apply('pad', [a], { axis: frontAxis(axis, a.shape.length), before, after });

/** `a`, computed no earlier than `other`: what is made of it does not lie in memory before. Neither is copied. */
export const after = (a: Value, other: Value): Value => apply('after', [a, other], {});

/** `build(a)`, whose intermediate values need not be kept: with `recompute` gradients make them again from `a`. */
export const checkpoint = (a: Value, build: (a: Value) => Value): Value =>
  a.graph.segment(a, build);

const reducing =
  (op: 'reduceSum' | 'reduceMean' | 'reduceMax') =>
  (a: Value, axes?: readonly number[], keep = false): Value => {
    const rank = a.shape.length;
    const front = axes?.map((axis) => frontAxis(axis, rank)) ?? a.shape.map((_, i) => i);
    return front.length === 0 ? a : apply(op, [a], { axes: front.sort((x, y) => x - y), keep });
  };

/** Over the axes given, or over all of them. */
export const reduceSum = reducing('reduceSum');
export const reduceMean = reducing('reduceMean');
export const reduceMax = reducing('reduceMax');

export const argMax = (a: Value, axis: number): Value =>
  apply('argMax', [a], { axis: frontAxis(axis, a.shape.length) });

/** `table[index]` for every index: slices along axis 0. */
export const gather = (table: Value, indices: Value): Value =>
  picked(table, (part) => apply('gather', [part, indices], {}));

/** Row i of `values` added into row `indices[i]` of a zero table. */
export const scatterRows = (values: Value, indices: Value, rows: number): Value =>
  apply('scatterRows', [values, indices], { rows });

/** `a[i, indices[i]]` for every row i of a matrix. */
export const pick = (a: Value, indices: Value): Value => apply('pick', [a, indices], {});

export const oneHot = (indices: Value, depth: number, to: DType): Value =>
  apply('oneHot', [indices], { depth, to });

export interface Transposition {
  readonly transA?: boolean;
  readonly transB?: boolean;
  /** Rounded to f32, as all ONNX attributes are. */
  readonly alpha?: number;
}

/** a b of stacks of matrices, either transposed first, times alpha. */
export function matmul(a: Value, b: Value, options: Transposition = {}): Value {
  const { transA = false, transB = false, alpha = 1 } = options;
  return apply('matmul', [a, b], { transA, transB, alpha: Math.fround(alpha) });
}

interface GemmOptions extends Transposition {
  readonly c?: Value | undefined;
  readonly beta?: number;
  /** Adds things up: in f32 also where products are in half precision. */
  readonly exact?: boolean;
}

/** a b alpha + c beta of matrices. */
export function gemm(a: Value, b: Value, options: GemmOptions = {}): Value {
  const { c, transA = false, transB = false, alpha = 1, beta = 1, exact = false } = options;
  const factors = { alpha: Math.fround(alpha), beta: Math.fround(beta) };
  return apply('gemm', c ? [a, b, c] : [a, b], { transA, transB, exact, ...factors });
}

/** -log softmax(logits)[target] of every row. */
export const crossEntropy = (logits: Value, targets: Value): Value =>
  apply('crossEntropy', [logits, targets], {});

/**
 * The same for logits x weight^T, weight [V, width], at most `rows` rows in memory at once. If the weight is trained,
 * backward makes them again: a third more products instead of all logits.
 */
export const slicedCrossEntropy = (x: Value, weight: Value, targets: Value, rows: number): Value =>
  apply('slicedCrossEntropy', [x, weight, targets], { rows });

/** The numbers that a tensor in few bits stands for; see `ops/widening.ts` for its parts. */
export const widen = (parts: readonly [Value, ...Value[]], to: 'f32' | 'f64'): Value =>
  parts[0].graph.apply('widen', parts, { to })[0]!;

/** Cross-entropy behind a last layer that is widened from few bits, at most `rows` of its rows at a time. */
export const piecedCrossEntropy = (x: Value, weight: Value, targets: Value, rows: number): Value =>
  apply('piecedCrossEntropy', [x, targets, ...(weight.graph.partsOf(weight) ?? [])], { rows });

/** Each row with mean 0 and variance 1. */
export const standardize = (a: Value, epsilon: number): Value =>
  apply('standardize', [a], { epsilon });

/** softmax(q k^T * scale) v over the last two axes, where no position sees a later one. */
export const causalAttention = (q: Value, k: Value, v: Value, scale: number): Value =>
  apply('causalAttention', [q, k, v], { scale });

/** The same over (B, A, T, d), with grouped heads of keys and values (B, K, T, d); `window` 0 sees all positions. */
export const groupedAttention = (
  q: Value,
  k: Value,
  v: Value,
  { scale, window = 0 }: { readonly scale: number; readonly window?: number },
): Value => apply('groupedAttention', [q, k, v], { scale: Math.fround(scale), window });

/** Rows divided by their root mean square, times a scale for each column. */
export const rmsNorm = (x: Value, scale: Value, epsilon: number): Value =>
  apply('rmsNorm', [x, scale], { epsilon });

/** (B, A, T, d) with elements i and i + d/2 rotated by the angle whose cosine and sine, both (T, d/2), are given. */
export const rotary = (x: Value, cos: Value, sin: Value): Value =>
  apply('rotary', [x, cos, sin], {});

/** gate * sigmoid(gate) * up. */
export const swiglu = (gate: Value, up: Value): Value => apply('swiglu', [gate, up], {});

/**
 * Sums what broadcasting repeated, back to `shape`. Leading axes are summed by a product with a row of ones: faster in
 * onnxruntime than ReduceSum, and with the same bits for any number of threads.
 */
export function sumTo(a: Value, shape: Shape): Value {
  if (sameShape(a.shape, shape)) return a;
  let lead = a.shape.length - shape.length;
  while (lead < a.shape.length && shape[lead - a.shape.length + shape.length] === 1) lead++;
  const rest = a.shape.slice(lead);
  const summed = reshape(sumLeading(a, lead), [...a.shape.slice(0, lead).map(() => 1), ...rest]);
  const offset = a.shape.length - shape.length;
  const inner = summed.shape.flatMap((dim, i) =>
    i >= lead && shape[i - offset] === 1 && dim !== 1 ? [i] : [],
  );
  return reshape(reduceSum(summed, inner, true), shape);
}

function sumLeading(a: Value, lead: number): Value {
  const rows = sizeOf(a.shape.slice(0, lead));
  const columns = sizeOf(a.shape.slice(lead));
  if (rows === 1) return a;
  if (columns === 1 || !isFloat(a.dtype)) {
    return reduceSum(a, Array.from(a.shape.slice(0, lead).keys()));
  }
  return gemm(filled(a, [1, rows], 1), reshape(a, [rows, columns]), { exact: true });
}
