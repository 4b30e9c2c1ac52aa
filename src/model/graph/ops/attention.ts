/**
 * Causal attention, with one key-value head per query head or per group of them; and fused ops of Llama-like decoders:
 * RMSNorm (arXiv 1910.07467), rotary positions (2104.09864), SwiGLU (2002.05202).
 */
import {
  type Emission,
  type Emitter,
  each,
  integers,
  isFloat,
  type NamedValue,
  type OpAttributes,
  type OpRules,
  type Plain,
  sameShape,
  type Value,
  type ValueType,
  withDim,
} from '../rule.ts';
import {
  add,
  matmul,
  mul,
  neg,
  reduceMean,
  reduceSum,
  reshape,
  rotary,
  sub,
  sumTo,
} from '../verbs.ts';

/** Score of a masked position; its softmax weight underflows to zero. */
const NEVER = -1e9;
/**
 * Score of a masked position: its weight e^-60 is lost in f32 rounding as long as one visible score is above -40. Lower
 * scores are slow: onnxruntime's softmax turns everything below -87 into denormal numbers.
 */
const UNSEEN = -60;
const UNBOUNDED = 3e38;

const lastAxis = { axis: { int: -1 } };

function emitCausal(e: Emission<OpAttributes['causalAttention']>): void {
  const [q, k, v] = e.inputs;
  const [o, weights] = e.outputs;
  const scores = emitScores(e.to, q!, k!, e.attributes.scale);
  const masked = emitMask(e.to, scores, { type: q!, length: q!.shape[q!.shape.length - 2]! });
  e.to.node('Softmax', [masked], { attributes: lastAxis, outputs: [weights!.name] });
  e.to.node('MatMul', [weights!.name, v!.name], { outputs: [o!.name] });
}

/** q k^T * scale. */
function emitScores(to: Emitter, q: NamedValue, k: NamedValue, scale: number): string {
  if (to.target !== 'webgpu' && q.dtype === 'f32') {
    return to.node('FusedMatMul', [q.name, k.name], {
      domain: 'com.microsoft',
      attributes: { transB: { int: 1 }, alpha: { float: scale } },
    });
  }
  const rank = k.shape.length;
  const perm = { ints: [...Array(rank - 2).keys(), rank - 1, rank - 2] };
  const transposed = to.node('Transpose', [k.name], { attributes: { perm } });
  const raw = to.node('MatMul', [q.name, transposed]);
  return to.node('Mul', [raw, to.constant(q.dtype, [], [scale])]);
}

interface Mask {
  readonly type: ValueType;
  readonly length: number;
  /** Attention window in positions, including the current one; 0 means all before it. */
  readonly window?: number;
}

function emitMask(to: Emitter, scores: string, { type, length, window = 0 }: Mask): string {
  const constant = (seen: number, unseen: number) =>
    to.constant(type.dtype, [length, length], mask(length, window, seen, unseen));
  return to.target === 'webgpu'
    ? to.node('Add', [scores, constant(0, NEVER)])
    : to.node('Min', [scores, constant(UNBOUNDED, UNSEEN)]);
}

/** Returns a mask matrix: `seen` on and below the diagonal within the window, `unseen` elsewhere. */
function mask(length: number, window: number, seen: number, unseen: number): Float32Array {
  const square = new Float32Array(length * length).fill(seen);
  for (let row = 0; row < length; row++) {
    square.fill(unseen, row * length + row + 1, (row + 1) * length);
    if (window > 0) square.fill(unseen, row * length, row * length + Math.max(0, row - window + 1));
  }
  return square;
}

/**
 * Stacks the queries of a group, so that each key head needs one product. Scores of published models reach far below
 * -60, so the scores of a row are relative to that of its own position, which is always visible.
 */
function emitGrouped(e: Emission<OpAttributes['groupedAttention']>): void {
  const { inputs, outputs, attributes, to } = e;
  const [q, k, v] = inputs;
  const [o, weights] = outputs;
  const { batch, heads, groups, length, size } = sizesOf(q!, k!);
  const shaped = (name: string, shape: readonly number[], out?: string) =>
    to.node('Reshape', [name, integers(to, shape)], out === undefined ? {} : { outputs: [out] });
  const stacked = shaped(q!.name, [batch, heads, groups * length, size]);
  const flat = { ...q!, name: stacked, shape: [batch, heads, groups * length, size] };
  const square = [batch, heads, groups, length, length];
  let scores = shaped(emitScores(to, flat, k!, attributes.scale), square);
  if (to.target !== 'webgpu') {
    const grouped = shaped(q!.name, [batch, heads, groups, length, size]);
    const alone = shaped(k!.name, [batch, heads, 1, length, size]);
    const selfScore = to.node('ReduceSum', [to.node('Mul', [grouped, alone]), integers(to, [-1])]);
    const scaled = to.node('Mul', [selfScore, to.constant(q!.dtype, [], [attributes.scale])]);
    scores = to.node('Sub', [scores, scaled]);
  }
  const masked = emitMask(to, scores, { type: q!, length, window: attributes.window });
  const shares = to.node('Softmax', [masked], { attributes: lastAxis });
  shaped(shares, weights!.shape, weights!.name);
  shaped(to.node('MatMul', [weights!.name, v!.name]), o!.shape, o!.name);
}

/** Returns the sizes of q (B, heads * groups, T, d) and k (B, heads, T, d). */
function sizesOf(q: ValueType, k: ValueType) {
  const [batch, queries, length, size] = q.shape;
  const heads = k.shape[1]!;
  const groups = queries! / heads;
  return { batch: batch!, heads, groups, length: length!, size: size! };
}

/** Returns the gradients by q, k and v. The row sums of dP * P equal those of dO * O, which is a smaller tensor. */
function deriveAttention(
  {
    q,
    k,
    v,
    o,
    weights,
    grad,
  }: Readonly<Record<'q' | 'k' | 'v' | 'o' | 'weights' | 'grad', Value>>,
  alpha: number,
): readonly [q: Value, k: Value, v: Value] {
  const delta = reduceSum(mul(grad, o), [-1], true);
  const scores = mul(sub(matmul(grad, v, { transB: true }), delta), weights);
  return [
    matmul(scores, k, { alpha }),
    matmul(scores, q, { transA: true, alpha }),
    matmul(weights, grad, { transA: true }),
  ];
}

const keepLast = { keepdims: { int: 1 } };

/** Emits onnxruntime's operator; from basic operators for f64, whose statistics it keeps as f32, and other backends. */
function emitRmsNorm({
  inputs: [x, scale],
  outputs: [y, inverse],
  attributes: { epsilon },
  to,
}: Emission<OpAttributes['rmsNorm']>): void {
  if (x!.dtype === 'f32' && to.target !== 'webgpu') {
    to.node('SimplifiedLayerNormalization', [x!.name, scale!.name], {
      attributes: { axis: { int: -1 }, epsilon: { float: epsilon }, stash_type: { int: 1 } },
      outputs: [y!.name, inverse!.name],
    });
    return;
  }
  const scalar = (value: number) => to.constant(x!.dtype, [], [value]);
  const squared = to.node('Mul', [x!.name, x!.name]);
  const mean = to.node('ReduceMean', [squared, integers(to, [-1])], { attributes: keepLast });
  const root = to.node('Sqrt', [to.node('Add', [mean, scalar(epsilon)])]);
  to.node('Div', [scalar(1), root], { outputs: [inverse!.name] });
  const even = to.node('Mul', [x!.name, inverse!.name]);
  to.node('Mul', [even, scale!.name], { outputs: [y!.name] });
}

/** Rotates the pair of elements i and i + d/2 of every position by that position's angle. */
function emitRotary({ inputs: [x, cos, sin], outputs: [y], to }: Emission<Plain>): void {
  if (x!.dtype === 'f32' && to.target !== 'webgpu') {
    const first = to.constant('i64', [1], [0]);
    to.node('RotaryEmbedding', [x!.name, first, cos!.name, sin!.name], {
      domain: 'com.microsoft',
      outputs: [y!.name],
    });
    return;
  }
  const half = x!.shape[3]! / 2;
  const low = `${y!.name}.low`;
  const high = `${y!.name}.high`;
  to.node('Split', [x!.name, integers(to, [half, half])], {
    attributes: { axis: { int: -1 } },
    outputs: [low, high],
  });
  const product = (a: string, b: string) => to.node('Mul', [a, b]);
  const left = to.node('Sub', [product(low, cos!.name), product(high, sin!.name)]);
  const right = to.node('Add', [product(high, cos!.name), product(low, sin!.name)]);
  to.node('Concat', [left, right], { attributes: { axis: { int: -1 } }, outputs: [y!.name] });
}

export const attention = {
  causalAttention: {
    infer: ([q, k, v]) => {
      if (!q || !k || !v || !sameShape(q.shape, k.shape) || !sameShape(q.shape, v.shape)) {
        throw new TypeError('attention takes queries, keys and values of one shape');
      }
      const length = q.shape[q.shape.length - 2]!;
      return [q, { dtype: q.dtype, shape: [...q.shape.slice(0, -1), length] }];
    },
    saves: true,
    emit: emitCausal,
    derive: ({ grad, inputs: [q, k, v], outputs: [o, weights], attributes }) =>
      deriveAttention({ q: q!, k: k!, v: v!, o: o!, weights: weights!, grad }, attributes.scale),
  },
  groupedAttention: {
    infer: ([q, k, v]) => {
      if (q?.shape.length !== 4 || k?.shape.length !== 4 || !v || !sameShape(k.shape, v.shape)) {
        throw new TypeError('attention takes queries, and keys and values of one shape');
      }
      const { batch, heads, groups, length, size } = sizesOf(q, k);
      if (!Number.isSafeInteger(groups) || !sameShape([batch, heads, length, size], k.shape)) {
        throw new TypeError(`queries [${q.shape}] cannot share keys [${k.shape}]`);
      }
      return [q, { dtype: q.dtype, shape: [batch, heads, groups * length, length] }];
    },
    saves: true,
    emit: emitGrouped,
    derive: ({ grad, inputs: [q, k, v], outputs: [o, weights], attributes }) => {
      const { batch, heads, groups, length, size } = sizesOf(q!, k!);
      const stacked = (value: Value) => reshape(value, [batch, heads, groups * length, size]);
      const [dq, dk, dv] = deriveAttention(
        { q: stacked(q!), k: k!, v: v!, o: stacked(o!), weights: weights!, grad: stacked(grad) },
        attributes.scale,
      );
      return [reshape(dq, q!.shape), dk, dv];
    },
  },
  rmsNorm: {
    infer: ([x, scale]) => {
      const width = x?.shape[x.shape.length - 1];
      if (
        !x ||
        !isFloat(x.dtype) ||
        scale?.dtype !== x.dtype ||
        scale.shape.join() !== `${width}`
      ) {
        throw new TypeError('a norm takes float rows and a scale of their width');
      }
      return [x, { dtype: x.dtype, shape: withDim(x.shape, x.shape.length - 1, 1) }];
    },
    saves: true,
    emit: emitRmsNorm,
    derive: ({ grad, inputs: [x, scale], outputs: [, inverse], wants }) => {
      const even = mul(x!, inverse!);
      const scaled = mul(grad, scale!);
      const slope = reduceMean(mul(scaled, even), [-1], true);
      return [
        wants(0) ? mul(sub(scaled, mul(even, slope)), inverse!) : undefined,
        wants(1) ? sumTo(mul(grad, even), scale!.shape) : undefined,
      ];
    },
  },
  // the gradient is rotated back by the same angles; the tables themselves are constants
  rotary: {
    infer: ([x, cos, sin]) => {
      const [, , length, size] = x?.shape ?? [];
      if (x?.shape.length !== 4 || size! % 2 !== 0) {
        throw new TypeError('rotary positions need (B, A, T, d) with an even d');
      }
      const table = [length!, size! / 2];
      if (!cos || !sin || !sameShape(cos.shape, table) || !sameShape(sin.shape, table)) {
        throw new TypeError(`rotary positions of [${x.shape}] need two tables of [${table}]`);
      }
      return [x];
    },
    emit: emitRotary,
    derive: each(({ grad, inputs: [, cos, sin] }) => rotary(grad, cos!, neg(sin!))),
  },
  // gate * sigmoid(gate) * up
  swiglu: {
    infer: ([gate, up]) => {
      if (!gate || !up || !sameShape(gate.shape, up.shape) || gate.dtype !== up.dtype) {
        throw new TypeError('a gate needs values of its own shape');
      }
      return [gate, gate];
    },
    saves: true,
    emit: ({ inputs: [gate, up], outputs: [y, open], to }) => {
      to.node('Sigmoid', [gate!.name], { outputs: [open!.name] });
      to.node('Mul', [to.node('Mul', [gate!.name, open!.name]), up!.name], { outputs: [y!.name] });
    },
    derive: ({ grad, inputs: [gate, up], outputs: [, open], wants }) => {
      const passed = mul(gate!, open!);
      // the slope of gate * sigmoid(gate) is sigmoid + passed * (1 - sigmoid)
      const slope = () => add(open!, sub(passed, mul(passed, open!)));
      return [
        wants(0) ? mul(mul(grad, up!), slope()) : undefined,
        wants(1) ? mul(grad, passed) : undefined,
      ];
    },
  },
} satisfies OpRules;
