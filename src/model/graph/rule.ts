/** What ops are made of: typed values, the attributes of every op, and op rules (shapes, ONNX nodes, derivative). */
import type { DType, OnnxAttribute, Shape } from '../onnx.ts';

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

/** Returns the number of elements of a shape. */
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

/** No attributes. */
export type Plain = Readonly<Record<never, never>>;

export interface Reduction {
  readonly axes: readonly number[];
  /** Keep reduced dimensions as 1. */
  readonly keep: boolean;
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
   * op(a) op(b) * alpha + c * beta over matrices; c is optional and broadcasts. `exact`: in f32 whatever others use.
   */
  gemm: {
    readonly exact: boolean;
    readonly transA: boolean;
    readonly transB: boolean;
    readonly alpha: number;
    readonly beta: number;
  };
  /** op(a) op(b) * alpha over stacks of matrices, whose leading dimensions broadcast. */
  matmul: { readonly transA: boolean; readonly transB: boolean; readonly alpha: number };
  reshape: { readonly shape: Shape };
  transpose: { readonly order: readonly number[] };
  expand: { readonly shape: Shape };
  concat: { readonly axis: number };
  split: { readonly axis: number; readonly sizes: readonly number[] };
  slice: { readonly axis: number; readonly start: number; readonly end: number };
  pad: { readonly axis: number; readonly before: number; readonly after: number };
  /** The first input, once the second one has been computed. */
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
  /** Whole slices of the first input along its axis 0, one per index. */
  gather: Plain;
  /** Rows added into zeros at their indices: the transpose of `gather`. */
  scatterRows: { readonly rows: number };
  /** One element of every row. */
  pick: Plain;
  oneHot: { readonly depth: number; readonly to: DType };
  softmax: Plain;
  logSoftmax: Plain;
  crossEntropy: Plain;
  /** Cross-entropy behind a last layer whose logits are made for at most so many rows at once. */
  slicedCrossEntropy: { readonly rows: number };
  standardize: { readonly epsilon: number };
  // tensors that are held in few bits
  /** f32 (or f64) numbers of f16, or of blocks of 8 or 4 bits with their scales and offsets. */
  widen: { readonly to: 'f32' | 'f64' };
  /** Cross-entropy behind such a last layer, of which at most so many rows are widened at once. */
  piecedCrossEntropy: { readonly rows: number };
  causalAttention: { readonly scale: number };
  /** A position sees so many positions up to itself; 0 is all of them. */
  groupedAttention: { readonly scale: number; readonly window: number };
  rmsNorm: { readonly epsilon: number };
  rotary: Plain;
  swiglu: Plain;
}

export type OpName = keyof OpAttributes;

export interface OpRule<A> {
  readonly infer: (inputs: readonly ValueType[], attributes: A) => readonly ValueType[];
  readonly emit: (emission: Emission<A>) => void;
  /** Gradients of the inputs, or in words why gradients stop here. */
  readonly derive: Derive<A> | string;
  /** Results after the first are kept for the derivative and have none of their own. */
  readonly saves?: true;
}

/** The rules of some ops. */
export type OpRules = { readonly [K in OpName]?: OpRule<OpAttributes[K]> };

export type Derive<A> = (derivation: Derivation<A>) => readonly (Value | undefined)[];

/** One recorded op with the gradients of the loss by its results. */
export interface Derivation<A> {
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly attributes: A;
  /** Gradient by the first result. */
  readonly grad: Value;
  /** Gradients by all results; undefined is zero. */
  readonly grads: readonly (Value | undefined)[];
  /** Whether anybody needs the gradient by input `i`. */
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
  /** Whether anybody reads output `i`. */
  uses(i: number): boolean;
}

/**
 * Target kernels: onnxruntime on the CPU (native or WebAssembly), CUDA, or WebGPU. Last bits may differ between them.
 */
export type GraphTarget = 'cpu' | 'cuda' | 'webgpu';

/** Sink for emitted ONNX nodes. */
export interface Emitter {
  readonly target: GraphTarget;
  /** Adds a node and names its only result, freshly unless `output` is given. */
  node(type: string, inputs: readonly string[], options?: NodeOptions): string;
  /** A tensor known while building; equal ones are kept once. */
  constant(dtype: DType, shape: Shape, elements: ArrayLike<number>): string;
}

export interface NodeOptions {
  readonly attributes?: Readonly<Record<string, OnnxAttribute>>;
  readonly outputs?: readonly string[];
  readonly domain?: 'com.microsoft';
  /** A product that adds things up: in f32 also where products are not. */
  readonly exact?: boolean;
}

/** An op that is one ONNX node with the same inputs and results. */
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

/** One function per input, each called only when its gradient is needed. */
export const each =
  <A>(...partials: readonly ((derivation: Derivation<A>) => Value)[]): Derive<A> =>
  (derivation) =>
    partials.map((partial, i) => (derivation.wants(i) ? partial(derivation) : undefined));

/** An i64 constant, which is how ONNX takes shapes and axes. */
export const integers = (to: Emitter, values: readonly number[]): string =>
  to.constant('i64', [values.length], values);
