/** The types of ops: typed values, the attributes of every op, and op rules (shapes, ONNX nodes, derivative). */
import type { DType, OnnxAttribute, Shape } from '../onnx.ts';

/** A dynamic leading dimension of a graph input; only `gather` can read over it. */
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

/** The interface of a graph for values and ops: records ops and constants. */
export interface Recorder {
  apply<K extends OpName>(
    op: K,
    inputs: readonly Value[],
    attributes: OpAttributes[K],
  ): readonly Value[];
  /** Returns the parts that a value is widened from, if any; it is widened again for every op that reads it. */
  partsOf(value: Value): readonly Value[] | undefined;
  constant(type: ValueType, elements: ArrayLike<number>): Value;
  /** Returns the constant with this name, whose elements are given when a session is created. */
  external(part: ValueType & { readonly name: string }): Value;
  /** Returns the product of rows with a transposed weight, if the weight is stored in another way. */
  product?: ((rows: Value, weight: Value) => Value | undefined) | undefined;
  /** Records `build(input)` as a segment, which gradients may recompute instead of keeping its values. */
  segment(input: Value, build: (input: Value) => Value): Value;
}

export const isFloat = (dtype: DType): boolean => dtype === 'f32' || dtype === 'f64';

/** Returns the number of elements of a shape. */
export const sizeOf = (shape: Shape): number => shape.reduce((size, dim) => size * dim, 1);

export const sameShape = (a: Shape, b: Shape): boolean =>
  a.length === b.length && a.every((dim, i) => dim === b[i]);

/** Returns an axis counted from the front; a negative one counts from the back. */
export function frontAxis(axis: number, rank: number): number {
  const front = axis < 0 ? axis + rank : axis;
  if (front < 0 || front >= rank)
    throw new TypeError(`axis ${axis} does not exist in rank ${rank}`);
  return front;
}

/** Returns the shape of two operands after NumPy broadcasting. */
export function broadcast(a: Shape, b: Shape): Shape {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const left = a[i - rank + a.length] ?? 1;
    const right = b[i - rank + b.length] ?? 1;
    if (left !== right && left !== 1 && right !== 1) {
      throw new TypeError(`[${a}] and [${b}] cannot be broadcast`);
    }
    return left === 1 ? right : left;
  });
}

/** Returns `shape` with one dimension replaced. */
export const withDim = (shape: Shape, axis: number, dim: number): Shape =>
  shape.map((old, i) => (i === axis ? dim : old));

/** No attributes. */
export type Plain = Readonly<Record<never, never>>;

export interface Reduction {
  readonly axes: readonly number[];
  /** Whether to keep reduced dimensions, with size 1. */
  readonly keep: boolean;
}

/** How a window moves over spatial axes; `begin` and `end` are the padding of each. */
export interface SlidingWindow {
  readonly strides: Shape;
  readonly begin: Shape;
  readonly end: Shape;
  readonly dilations: Shape;
}

/** Every op with its attributes. `ops/table.ts` must have a rule for each; a missing one does not compile. */
export interface OpAttributes {
  add: Plain;
  sub: Plain;
  mul: Plain;
  div: Plain;
  pow: Plain;
  maximum: Plain;
  minimum: Plain;
  neg: Plain;
  abs: Plain;
  sign: Plain;
  exp: Plain;
  log: Plain;
  sqrt: Plain;
  erf: Plain;
  sin: Plain;
  cos: Plain;
  tanh: Plain;
  sigmoid: Plain;
  relu: Plain;
  clip: { readonly low: number; readonly high: number };
  erfGate: Plain;
  /**
   * op(a) op(b) * alpha + c * beta over matrices; c is optional and broadcasts. `exact`: in f32 even if products are in
   * half precision.
   */
  gemm: {
    readonly exact: boolean;
    readonly transA: boolean;
    readonly transB: boolean;
    readonly alpha: number;
    readonly beta: number;
  };
  /** op(a) op(b) * alpha over stacks of matrices; leading dimensions broadcast. */
  matmul: { readonly transA: boolean; readonly transB: boolean; readonly alpha: number };
  reshape: { readonly shape: Shape };
  transpose: { readonly order: readonly number[] };
  expand: { readonly shape: Shape };
  concat: { readonly axis: number };
  split: { readonly axis: number; readonly sizes: readonly number[] };
  slice: { readonly axis: number; readonly start: number; readonly end: number };
  pad: { readonly axis: number; readonly before: number; readonly after: number };
  /** Returns the first input, no earlier than the second one is computed. */
  after: Plain;
  reduceSum: Reduction;
  reduceMean: Reduction;
  reduceMax: Reduction;
  argMax: { readonly axis: number };
  equal: Plain;
  less: Plain;
  greater: Plain;
  not: Plain;
  where: Plain;
  cast: { readonly to: DType };
  /** Selects entries of the first input along axis 0, one per index. */
  gather: Plain;
  /** Adds rows into zeros at their indices: the transpose of `gather`. */
  scatterRows: { readonly rows: number };
  /** Selects one element of every row. */
  pick: Plain;
  oneHot: { readonly depth: number; readonly to: DType };
  softmax: Plain;
  logSoftmax: Plain;
  crossEntropy: Plain;
  /** Cross-entropy after a last layer, with the logits of at most `rows` rows in memory at a time. */
  slicedCrossEntropy: { readonly rows: number };
  standardize: { readonly epsilon: number };
  // quantized tensors
  /** Converts f16, or blocks of 8 or 4 bits with scales and offsets, to f32 (or f64). */
  widen: { readonly to: 'f32' | 'f64' };
  /** Product of rows (M, K) with a transposed weight in blocks of `bits` bits [N, K / 32, bytes], and their scales. */
  blockProduct: { readonly bits: 8 | 4 };
  /** Cross-entropy after a quantized last layer, with at most `rows` of its rows widened at a time. */
  piecedCrossEntropy: { readonly rows: number };
  causalAttention: { readonly scale: number };
  /** `window`: positions that each position attends to, including itself; 0 means all before it. */
  groupedAttention: { readonly scale: number; readonly window: number };
  rmsNorm: { readonly epsilon: number };
  rotary: Plain;
  swiglu: Plain;
  // windows over (N, C, ...)
  conv: SlidingWindow & { readonly group: number };
  /** `sizes`: the spatial sizes of the result. */
  convTranspose: SlidingWindow & { readonly group: number; readonly sizes: Shape };
  /** Returns the elements under each position of a window as rows, for each group of channels: (g, N L, K C/g). */
  patches: SlidingWindow & { readonly group: number; readonly kernel: Shape };
  maxPool: SlidingWindow & { readonly kernel: Shape };
  /** Returns the first input; its derivative moves the statistic (second input) towards the third one. */
  track: Plain;
}

export type OpName = keyof OpAttributes;

export interface OpRule<A> {
  readonly infer: (inputs: readonly ValueType[], attributes: A) => readonly ValueType[];
  readonly emit: (emission: Emission<A>) => void;
  /** Derivative: the gradients of the inputs, or the reason why gradients stop here. */
  readonly derive: Derive<A> | string;
  /** Results after the first are only saved for the derivative and have no gradient. */
  readonly saves?: true;
}

/** The rules of some ops. */
export type OpRules = { readonly [K in OpName]?: OpRule<OpAttributes[K]> };

export type Derive<A> = (derivation: Derivation<A>) => readonly (Value | undefined)[];

/** A recorded op, with the gradients of the loss by its results. */
export interface Derivation<A> {
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly attributes: A;
  /** Gradient by the first result. */
  readonly grad: Value;
  /** Gradients by all results; undefined is zero. */
  readonly grads: readonly (Value | undefined)[];
  /** Reports whether the gradient by input `i` is needed. */
  wants(i: number): boolean;
}

/** Values by their ONNX names. */
export interface NamedValue extends ValueType {
  readonly name: string;
}

export interface Emission<A> {
  readonly inputs: readonly NamedValue[];
  readonly outputs: readonly NamedValue[];
  readonly attributes: A;
  readonly to: Emitter;
  /** Reports whether output `i` is used. */
  uses(i: number): boolean;
}

/**
 * Target kernels: onnxruntime on the CPU (native or WebAssembly), CUDA, or WebGPU. Results may differ in the last bits.
 */
export type GraphTarget = 'cpu' | 'cuda' | 'webgpu';

/** Receives the emitted ONNX nodes. */
export interface Emitter {
  readonly target: GraphTarget;
  /** Adds a node and returns the name of its only result; a new name unless `output` is given. */
  node(type: string, inputs: readonly string[], options?: NodeOptions): string;
  /** Adds a constant tensor and returns its name; equal constants are stored once. */
  constant(dtype: DType, shape: Shape, elements: ArrayLike<number>): string;
}

export interface NodeOptions {
  readonly attributes?: Readonly<Record<string, OnnxAttribute>>;
  readonly outputs?: readonly string[];
  readonly domain?: 'com.microsoft';
  /** Whether a product computes a sum, and stays in f32 even if products are in half precision. */
  readonly exact?: boolean;
}

/** Returns an emit function for an op that is one ONNX node with the same inputs and results. */
export const direct =
  <A>(
    type: string,
    attributes: (attributes: A) => Readonly<Record<string, OnnxAttribute>> = () => ({}),
  ): OpRule<A>['emit'] =>
  (e) => {
    e.to.node(
      type,
      e.inputs.map(({ name }) => name),
      { attributes: attributes(e.attributes), outputs: e.outputs.map(({ name }) => name) },
    );
  };

/** Builds a derivative from one function per input, each called only if its gradient is needed. */
export const each =
  <A>(...partials: readonly ((derivation: Derivation<A>) => Value)[]): Derive<A> =>
  (derivation) =>
    partials.map((partial, i) => (derivation.wants(i) ? partial(derivation) : undefined));

/** Adds an i64 constant, the type of shapes and axes in ONNX. */
export const integers = (to: Emitter, values: readonly number[]): string =>
  to.constant('i64', [values.length], values);
