/** Every op by name, with its attributes. `ops/table.ts` must have a rule for each; a missing one does not compile. */
import type { DType, Shape } from '../onnx.ts';

/** No attributes. */
export type Plain = Readonly<Record<never, never>>;

export interface Reduction {
  readonly axes: readonly number[];
  /** Keep reduced dimensions as 1. */
  readonly keep: boolean;
}

interface Elementwise {
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
}

interface Matrix {
  /** op(a) op(b) * alpha + c * beta over matrices; c is optional and broadcasts. `exact` is in f32 where other products are not. */
  gemm: {
    readonly exact: boolean;
    readonly transA: boolean;
    readonly transB: boolean;
    readonly alpha: number;
    readonly beta: number;
  };
  /** op(a) op(b) * alpha over stacks of matrices, whose leading dimensions broadcast. */
  matmul: { readonly transA: boolean; readonly transB: boolean; readonly alpha: number };
}

interface Shaping {
  reshape: { readonly shape: Shape };
  transpose: { readonly order: readonly number[] };
  expand: { readonly shape: Shape };
  concat: { readonly axis: number };
  split: { readonly axis: number; readonly sizes: readonly number[] };
  slice: { readonly axis: number; readonly start: number; readonly end: number };
  pad: { readonly axis: number; readonly before: number; readonly after: number };
  /** The first input, once the second one has been computed. */
  after: Plain;
}

interface Reducing {
  reduceSum: Reduction;
  reduceMean: Reduction;
  reduceMax: Reduction;
  argMax: { readonly axis: number };
}

interface Choosing {
  equal: Plain;
  less: Plain;
  greater: Plain;
  not: Plain;
  where: Plain;
  cast: { readonly to: DType };
}

interface Indexing {
  /** Whole slices of the first input along its axis 0, one per index. */
  gather: Plain;
  /** Rows added into zeros at their indices: the transpose of `gather`. */
  scatterRows: { readonly rows: number };
  /** One element of every row. */
  pick: Plain;
  oneHot: { readonly depth: number; readonly to: DType };
}

interface Composite {
  softmax: Plain;
  logSoftmax: Plain;
  crossEntropy: Plain;
  /** Cross-entropy behind a last layer whose logits are made for at most so many rows at once. */
  slicedCrossEntropy: { readonly rows: number };
  standardize: { readonly epsilon: number };
}

/** Tensors that are held in few bits. */
interface Widening {
  /** f32 (or f64) numbers of f16, or of blocks of 8 or 4 bits with their scales and offsets. */
  widen: { readonly to: 'f32' | 'f64' };
  /** Cross-entropy behind such a last layer, of which at most so many rows are widened at once. */
  piecedCrossEntropy: { readonly rows: number };
}

interface Decoding {
  causalAttention: { readonly scale: number };
  /** A position sees so many positions up to itself; 0 is all of them. */
  groupedAttention: { readonly scale: number; readonly window: number };
  rmsNorm: { readonly epsilon: number };
  rotary: Plain;
  swiglu: Plain;
}

export type OpAttributes = Elementwise &
  Matrix &
  Shaping &
  Reducing &
  Choosing &
  Indexing &
  Composite &
  Widening &
  Decoding;

export type OpName = keyof OpAttributes;
