/**
 * The ops as functions over values, exported as `ops`. A number operand becomes a scalar constant of the other
 * operand's type.
 */
import type { DType, Shape } from '../onnx.ts';
import type { OpAttributes, OpName, SlidingWindow } from './rule.ts';
import { ANY, frontAxis, isFloat, sameShape, sizeOf, type Value } from './rule.ts';

export type Operand = Value | number;

/** Records an op and returns its first result. */
const apply = <K extends OpName>(
  op: K,
  inputs: readonly [Value, ...Value[]],
  attributes: OpAttributes[K],
): Value => inputs[0].graph.apply(op, fresh(inputs), attributes)[0]!;

/** Widens quantized inputs anew for this op, after its other operands, so that wide values are not kept in memory. */
function fresh(inputs: readonly Value[]): readonly Value[] {
  const partsOf = (value: Value) => value.graph.partsOf(value);
  const other = inputs.find((value) => !partsOf(value) && value.shape.length > 0);
  if (!other) return inputs;
  return inputs.map((value) => {
    const [bits, ...scales] = partsOf(value) ?? [];
    return bits ? widen([after(bits, other), ...scales], value.dtype as 'f32') : value;
  });
}

/** Selects along axis 0; of a widened value before widening, in its parts. */
function picked(a: Value, pick: (part: Value) => Value): Value {
  const [bits, ...scales] = a.graph.partsOf(a) ?? [];
  return bits ? widen([pick(bits), ...scales.map(pick)], a.dtype as 'f32') : pick(a);
}

/** Returns a constant of the same element type and graph as `like`. */
export const constantLike = (like: Value, shape: Shape, elements: ArrayLike<number>): Value =>
  like.graph.constant({ dtype: like.dtype, shape }, elements);

/** Returns a tensor of `shape` filled with one number. */
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
/** Applies to the last axis. */
export const softmax = unary('softmax');
/** Applies to the last axis. */
export const logSoftmax = unary('logSoftmax');

export const square = (a: Value): Value => mul(a, a);

export const clip = (a: Value, low: number, high: number): Value =>
  apply('clip', [a], { low, high });

/** Returns `a` where the condition holds, else `b`. */
export const where = (condition: Value, a: Value, b: Value): Value =>
  apply('where', [condition, a, b], {});

export const cast = (a: Value, to: DType): Value =>
  a.dtype === to ? a : apply('cast', [a], { to });

/** Returns the same elements in another shape; one dimension may be -1 and is inferred. */
export const reshape = (a: Value, wanted: Shape): Value => {
  const shape = withoutOpen(a.shape, wanted);
  return sameShape(a.shape, shape) ? a : apply('reshape', [a], { shape });
};

function withoutOpen(from: Shape, to: Shape): Shape {
  const at = to.indexOf(ANY);
  // a dynamic dimension is inferred at run time
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

/** Splits a value into pieces of the given sizes along an axis. */
export const split = (a: Value, axis: number, sizes: readonly number[]): readonly Value[] =>
  sizes.length === 1
    ? [a]
    : a.graph.apply('split', [a], { axis: frontAxis(axis, a.shape.length), sizes });

export const slice = (a: Value, axis: number, start: number, end: number): Value => {
  const front = frontAxis(axis, a.shape.length);
  const cut = (part: Value) => apply('slice', [part], { axis: front, start, end });
  return front === 0 ? picked(a, cut) : cut(a);
};

/** Adds zeros before and after, along an axis. */
export const pad = (a: Value, axis: number, before: number, after: number): Value =>
  apply('pad', [a], { axis: frontAxis(axis, a.shape.length), before, after });

/** Returns `a`, but no earlier than `other` is computed, so that its consumers run later. Nothing is copied. */
export const after = (a: Value, other: Value): Value => apply('after', [a, other], {});

/** Returns `build(a)`; with `recompute`, gradients recompute its intermediate values from `a`. */
export const checkpoint = (a: Value, build: (a: Value) => Value): Value =>
  a.graph.segment(a, build);

const reducing =
  (op: 'reduceSum' | 'reduceMean' | 'reduceMax') =>
  (a: Value, axes?: readonly number[], keep = false): Value => {
    const rank = a.shape.length;
    const front = axes?.map((axis) => frontAxis(axis, rank)) ?? a.shape.map((_, i) => i);
    return front.length === 0 ? a : apply(op, [a], { axes: front.sort((x, y) => x - y), keep });
  };

/** Sums over the given axes, or over all. */
export const reduceSum = reducing('reduceSum');
export const reduceMean = reducing('reduceMean');
export const reduceMax = reducing('reduceMax');

export const argMax = (a: Value, axis: number): Value =>
  apply('argMax', [a], { axis: frontAxis(axis, a.shape.length) });

/** Returns `table[index]` for every index along axis 0. */
export const gather = (table: Value, indices: Value): Value =>
  picked(table, (part) => apply('gather', [part, indices], {}));

/** Adds row i of `values` into row `indices[i]` of a zero table. */
export const scatterRows = (values: Value, indices: Value, rows: number): Value =>
  apply('scatterRows', [values, indices], { rows });

/** Returns `a[i, indices[i]]` for every row i of a matrix. */
export const pick = (a: Value, indices: Value): Value => apply('pick', [a, indices], {});

export const oneHot = (indices: Value, depth: number, to: DType): Value =>
  apply('oneHot', [indices], { depth, to });

export interface Transposition {
  readonly transA?: boolean;
  readonly transB?: boolean;
  /** Factor of the product, rounded to f32 like all ONNX attributes. */
  readonly alpha?: number;
}

/** Returns a b alpha for stacks of matrices, each optionally transposed first. */
export function matmul(a: Value, b: Value, options: Transposition = {}): Value {
  const { transA = false, transB = false, alpha = 1 } = options;
  return apply('matmul', [a, b], { transA, transB, alpha: Math.fround(alpha) });
}

interface GemmOptions extends Transposition {
  readonly c?: Value | undefined;
  readonly beta?: number;
  /** Whether the product computes a sum, and stays in f32 even if products are in half precision. */
  readonly exact?: boolean;
}

/** Returns a b alpha + c beta for matrices. */
export function gemm(a: Value, b: Value, options: GemmOptions = {}): Value {
  const { c, transA = false, transB = false, alpha = 1, beta = 1, exact = false } = options;
  if (transB && !transA && alpha === 1 && beta === 1) {
    const product = a.graph.product?.(a, b);
    if (product) return c ? add(product, c) : product;
  }
  const factors = { alpha: Math.fround(alpha), beta: Math.fround(beta) };
  return apply('gemm', c ? [a, b, c] : [a, b], { transA, transB, exact, ...factors });
}

/** Returns -log softmax(logits)[target] for every row. */
export const crossEntropy = (logits: Value, targets: Value): Value =>
  apply('crossEntropy', [logits, targets], {});

/**
 * Cross-entropy for logits x weight^T, weight [V, width], with at most `rows` rows of logits in memory at a time. If
 * the weight is trained, the backward pass recomputes them: a third more products instead of storing all logits.
 */
export const slicedCrossEntropy = (x: Value, weight: Value, targets: Value, rows: number): Value =>
  apply('slicedCrossEntropy', [x, weight, targets], { rows });

/** Widens a quantized tensor to f32 or f64; see `ops/widening.ts` for its parts. */
export const widen = (parts: readonly [Value, ...Value[]], to: 'f32' | 'f64'): Value =>
  parts[0].graph.apply('widen', parts, { to })[0]!;

/** Cross-entropy after a quantized last layer, with at most `rows` of its rows widened at a time. */
export const piecedCrossEntropy = (x: Value, weight: Value, targets: Value, rows: number): Value =>
  apply('piecedCrossEntropy', [x, targets, ...(weight.graph.partsOf(weight) ?? [])], { rows });

/** Scales each row to mean 0 and variance 1. */
export const standardize = (a: Value, epsilon: number): Value =>
  apply('standardize', [a], { epsilon });

/** Returns softmax(q k^T * scale) v over the last two axes, with a causal mask. */
export const causalAttention = (q: Value, k: Value, v: Value, scale: number): Value =>
  apply('causalAttention', [q, k, v], { scale });

/** Causal attention of (B, A, T, d) with grouped keys and values (B, K, T, d); `window` 0 means full attention. */
export const groupedAttention = (
  q: Value,
  k: Value,
  v: Value,
  { scale, window = 0 }: { readonly scale: number; readonly window?: number },
): Value => apply('groupedAttention', [q, k, v], { scale: Math.fround(scale), window });

/** Divides rows by their root mean square, and multiplies by a scale per column. */
export const rmsNorm = (x: Value, scale: Value, epsilon: number): Value =>
  apply('rmsNorm', [x, scale], { epsilon });

/** Rotates elements i and i + d/2 of (B, A, T, d) by angles given as cosine and sine, both (T, d/2). */
export const rotary = (x: Value, cos: Value, sin: Value): Value =>
  apply('rotary', [x, cos, sin], {});

/** Returns gate * sigmoid(gate) * up. */
export const swiglu = (gate: Value, up: Value): Value => apply('swiglu', [gate, up], {});

/** Convolves (N, C, ...) with weights (M, C/group, ...). */
export const conv = (x: Value, w: Value, how: OpAttributes['conv'], bias?: Value): Value =>
  apply('conv', bias ? [x, w, bias] : [x, w], windowed(how, { group: how.group }));

/** Transposes a convolution with weights (C, M/group, ...). */
export const convTranspose = (
  x: Value,
  w: Value,
  how: OpAttributes['convTranspose'],
  bias?: Value,
): Value => {
  const more = { group: how.group, sizes: how.sizes };
  return apply('convTranspose', bias ? [x, w, bias] : [x, w], windowed(how, more));
};

export const patches = (x: Value, how: OpAttributes['patches']): Value =>
  apply('patches', [x], windowed(how, { group: how.group, kernel: how.kernel }));

export const maxPool = (x: Value, how: OpAttributes['maxPool']): Value =>
  apply('maxPool', [x], windowed(how, { kernel: how.kernel }));

const windowed = <M>(
  { strides, begin, end, dilations }: SlidingWindow,
  more: M,
): SlidingWindow & M => ({
  strides,
  begin,
  end,
  dilations,
  ...more,
});

/** Returns `losses`; its derivative moves the statistic `running` towards `batch` (`ops/statistics.ts`). */
export const track = (losses: Value, running: Value, batch: Value): Value =>
  apply('track', [losses, running, batch], {});

/**
 * Sums a gradient over broadcast axes, back to `shape`. Leading axes are summed by a product with a row of ones, which
 * is faster in onnxruntime than ReduceSum and gives the same bits for any number of threads.
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
