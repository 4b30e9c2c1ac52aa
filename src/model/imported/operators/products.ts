/** ONNX matrix products, softmax, norms and attention. */
import { frontAxis, sizeOf, type Value } from '../../graph/rule.ts';
import * as ops from '../../graph/verbs.ts';
import {
  type Call,
  int,
  type Operator,
  type Operators,
  optional,
  refusal,
  textOf,
  value,
  written,
} from '../call.ts';
import { asValue } from './elementwise.ts';

/** Multiplies stacks of matrices; a vector is a row on the left and a column on the right. */
function product(a: Value, b: Value): Value {
  if (a.shape.length === 1) {
    const rows = product(ops.reshape(a, [1, a.shape[0]!]), b);
    return ops.reshape(
      rows,
      rows.shape.toSpliced(rows.shape.length - (b.shape.length === 1 ? 1 : 2), 1),
    );
  }
  if (b.shape.length === 1) {
    return ops.reshape(product(a, ops.reshape(b, [b.shape[0]!, 1])), a.shape.slice(0, -1));
  }
  if (b.shape.length > 2) return ops.matmul(a, b);
  const rows = ops.reshape(a, [sizeOf(a.shape.slice(0, -1)), a.shape.at(-1)!]);
  return ops.reshape(ops.gemm(rows, b), [...a.shape.slice(0, -1), b.shape[1]!]);
}

const gemm: Operator = (call) => {
  const bias = optional(call, 2);
  return [
    ops.gemm(value(call, 0), value(call, 1), {
      c: bias,
      transA: int(call, 'transA', 0) === 1,
      transB: int(call, 'transB', 0) === 1,
      alpha: int(call, 'alpha', 1),
      ...(bias && { beta: int(call, 'beta', 1) }),
    }),
  ];
};

const fusedMatmul: Operator = (call) => [
  ops.matmul(value(call, 0), value(call, 1), {
    transA: int(call, 'transA', 0) === 1,
    transB: int(call, 'transB', 0) === 1,
    alpha: int(call, 'alpha', 1),
  }),
];

/** Applies an op of the last axis along another one. */
function onAxis(x: Value, axis: number, apply: (x: Value) => Value): Value {
  const last = x.shape.length - 1;
  if (axis === last) return apply(x);
  const order = x.shape.map((_, i) => i);
  [order[axis], order[last]] = [last, axis];
  return ops.transpose(apply(ops.transpose(x, order)), order);
}

const along =
  (apply: (x: Value) => Value): Operator =>
  (call) => {
    const x = value(call, 0);
    return [onAxis(x, frontAxis(int(call, 'axis', -1), x.shape.length), apply)];
  };

/** Returns x scaled and moved by weights that are as wide as its last axes. */
function affine(x: Value, scale: Value | undefined, bias: Value | undefined): Value {
  const scaled = scale ? ops.mul(x, scale) : x;
  return bias ? ops.add(scaled, bias) : scaled;
}

/** Standardizes all axes from the given one on. */
function standardized(call: Call, x: Value, axis: number): Value {
  const rows = ops.reshape(x, [sizeOf(x.shape.slice(0, axis)), sizeOf(x.shape.slice(axis))]);
  return ops.reshape(ops.standardize(rows, int(call, 'epsilon', 1e-5)), x.shape);
}

const layerNorm: Operator = (call) => {
  const x = value(call, 0);
  const axis = frontAxis(int(call, 'axis', -1), x.shape.length);
  return [affine(standardized(call, x, axis), value(call, 1), optional(call, 2))];
};

const rmsNorm: Operator = (call) => {
  const x = value(call, 0);
  const axis = frontAxis(int(call, 'axis', -1), x.shape.length);
  const axes = x.shape.map((_, i) => i).slice(axis);
  const mean = ops.reduceMean(ops.square(x), axes, true);
  const root = ops.sqrt(ops.add(mean, int(call, 'epsilon', 1e-5)));
  return [ops.mul(ops.div(x, root), value(call, 1))];
};

/** Reshapes weights of channels, so that they broadcast over (N, C, ...). */
const perChannel = (weight: Value, x: Value): Value =>
  ops.reshape(weight, [weight.shape[0]!, ...x.shape.slice(2).map(() => 1)]);

const instanceNorm: Operator = (call) => {
  const x = value(call, 0);
  const [scale, bias] = [value(call, 1), value(call, 2)].map((each) => perChannel(each, x));
  return [affine(standardized(call, x, 2), scale, bias)];
};

/** Until opset 20 the weights are of groups, since 21 of channels. */
const groupNorm: Operator = (call) => {
  const x = value(call, 0);
  const groups = int(call, 'num_groups', 1);
  const [batch, channels = 1, ...spatial] = x.shape;
  const apart = ops.reshape(x, [batch!, groups, channels / groups, ...spatial]);
  const even = standardized(call, apart, 2);
  const isOfGroups = call.opset < 21;
  const weights = [value(call, 1), value(call, 2)].map((each) =>
    ops.reshape(each, [groups, isOfGroups ? 1 : channels / groups, ...spatial.map(() => 1)]),
  );
  return [ops.reshape(affine(even, weights[0], weights[1]), x.shape)];
};

/** A training step uses the statistics of the batch and moves the running ones; everything else uses the latter. */
const batchNorm: Operator = (call) => {
  const x = value(call, 0);
  const [scale, bias, mean, variance] = [1, 2, 3, 4].map((i) => value(call, i));
  const epsilon = int(call, 'epsilon', 1e-5);
  const wide = (each: Value) => perChannel(each, x);
  if (!call.isTraining) {
    const root = ops.sqrt(ops.add(ops.maximum(variance!, 0), epsilon));
    const slope = ops.div(scale!, root);
    return [affine(x, wide(slope), wide(ops.sub(bias!, ops.mul(mean!, slope))))];
  }
  const axes = x.shape.map((_, i) => i).filter((axis) => axis !== 1);
  const channels = [x.shape[1]!];
  const center = ops.reduceMean(x, axes, true);
  const centered = ops.sub(x, center);
  const deviation = ops.reduceMean(ops.square(centered), axes, true);
  const rate = 1 - int(call, 'momentum', 0.9);
  const count = sizeOf(x.shape) / channels[0]!;
  call.track({ running: mean!, batch: ops.reshape(center, channels), rate });
  // PyTorch tracks the variance of the population
  const unbiased = ops.mul(ops.reshape(deviation, channels), count / Math.max(1, count - 1));
  call.track({ running: variance!, batch: unbiased, rate });
  const even = ops.div(centered, ops.sqrt(ops.add(deviation, epsilon)));
  return [affine(even, wide(scale!), wide(bias!))];
};

const lpNorm: Operator = (call) => {
  const x = value(call, 0);
  const axis = frontAxis(int(call, 'axis', -1), x.shape.length);
  const isFirst = int(call, 'p', 2) === 1;
  const size = isFirst
    ? ops.reduceSum(ops.abs(x), [axis], true)
    : ops.sqrt(ops.reduceSum(ops.square(x), [axis], true));
  return [ops.div(x, size)];
};

/** Score of a masked position; its softmax weight is 0. */
const NEVER = -1e9;

/** Splits (B, T, heads * d) into (B, heads, T, d). */
function headsOf(call: Call, x: Value, heads: number): Value {
  if (x.shape.length === 4) return x;
  const [batch, length, width] = x.shape as [number, number, number];
  if (heads < 1 || width % heads !== 0) throw refusal(call, `has ${heads} heads`, 'export again');
  return ops.transpose(ops.reshape(x, [batch, length, heads, width / heads]), [0, 2, 1, 3]);
}

/** Repeats heads of keys and values for the queries that share them. */
function repeated(x: Value, times: number): Value {
  if (times === 1) return x;
  const [batch, heads, length, size] = x.shape as [number, number, number, number];
  const apart = ops.reshape(x, [batch, heads, 1, length, size]);
  const wide = ops.expand(apart, [batch, heads, times, length, size]);
  return ops.reshape(wide, [batch, heads * times, length, size]);
}

interface Attending {
  readonly scale: number;
  readonly isCausal: boolean;
  readonly mask?: Value | undefined;
  readonly softcap?: number;
}

/** Returns softmax(q k^T * scale + mask) v over heads (B, A, T, d). */
function attend(call: Call, [q, k, v]: readonly [Value, Value, Value], how: Attending): Value {
  const raw = ops.matmul(q, k, { transB: true, alpha: how.scale });
  const { softcap = 0 } = how;
  let scores = softcap > 0 ? ops.mul(ops.tanh(ops.div(raw, softcap)), softcap) : raw;
  const [rows, columns] = scores.shape.slice(-2) as [number, number];
  const { mask } = how;
  if (mask?.dtype === 'bool') {
    scores = ops.where(mask, scores, ops.constantLike(scores, [], [NEVER]));
  } else if (mask) scores = ops.add(scores, ops.maximum(mask, NEVER));
  if (how.isCausal) {
    const hidden = written(rows * columns, (i) =>
      i % columns > Math.floor(i / columns) ? NEVER : 0,
    );
    const causal = { kind: 'float', shape: [rows, columns], elements: hidden } as const;
    scores = ops.add(scores, asValue(call, causal));
  }
  return ops.matmul(ops.softmax(scores), v);
}

/** Joins heads to (B, T, heads * d). */
function joinHeads(x: Value): Value {
  const [batch, heads, length, size] = x.shape as [number, number, number, number];
  return ops.reshape(ops.transpose(x, [0, 2, 1, 3]), [batch, length, heads * size]);
}

const attention: Operator = (call) => {
  if (call.inputs[4] || call.inputs[5] || call.results > 1) {
    throw refusal(call, 'has a cache of keys and values', 'export the model without use_cache');
  }
  const heads = int(call, 'q_num_heads', 0);
  const shared = int(call, 'kv_num_heads', heads);
  const [x, keys, values] = [value(call, 0), value(call, 1), value(call, 2)];
  const q = headsOf(call, x, heads);
  const times = q.shape[1]! / headsOf(call, keys, shared).shape[1]!;
  const [k, v] = [keys, values].map((each) => repeated(headsOf(call, each, shared), times));
  const result = attend(call, [q, k!, v!], {
    scale: int(call, 'scale', 1 / Math.sqrt(q.shape[3]!)),
    isCausal: int(call, 'is_causal', 0) === 1,
    mask: optional(call, 3),
    softcap: int(call, 'softcap', 0),
  });
  return [x.shape.length === 4 ? result : joinHeads(result)];
};

/** Returns the attention of projected queries, keys and values with the attributes of com.microsoft. */
function attended(call: Call, parts: readonly Value[], heads: number, mask?: Value): Value {
  const [q, k, v] = parts.map((part) => headsOf(call, part, heads));
  const scale = int(call, 'scale', 0) || 1 / Math.sqrt(q!.shape[3]!);
  const isCausal = int(call, 'unidirectional', 0) === 1;
  return joinHeads(attend(call, [q!, k!, v!], { scale, isCausal, mask }));
}

const multiHeadAttention: Operator = (call) => {
  if (call.inputs.slice(4).some((each, i) => each && i !== 1) || !call.inputs[2]) {
    throw refusal(call, 'has packed inputs or a cache', 'export with separate q, k and v');
  }
  const bias = optional(call, 3);
  const parts = [0, 1, 2].map((i) => value(call, i));
  const sizes = parts.map(({ shape }) => shape.at(-1)!);
  const biases = bias && ops.split(bias, 0, sizes);
  const moved = parts.map((part, i) => (biases ? ops.add(part, biases[i]!) : part));
  return [attended(call, moved, int(call, 'num_heads', 1), optional(call, 5))];
};

/** Attention whose weights for queries, keys and values are side by side. */
const packedAttention: Operator = (call) => {
  const hasMore = call.inputs.slice(3).some((each, i) => each && i !== 2);
  if (hasMore || call.attributes.qkv_hidden_sizes !== undefined || call.results > 1) {
    throw refusal(call, 'has a mask of lengths or a cache', 'export with masks of scores');
  }
  const made = affine(product(value(call, 0), value(call, 1)), undefined, optional(call, 2));
  const size = made.shape.at(-1)! / 3;
  const parts = ops.split(made, 2, [size, size, size]);
  return [attended(call, parts, int(call, 'num_heads', 1), optional(call, 5))];
};

/** A norm of x plus a residual and a bias; the fourth result is their sum. */
const skipping =
  (norm: Operator, biasAt: number): Operator =>
  (call) => {
    const [sum, bias] = [ops.add(value(call, 0), value(call, 1)), optional(call, biasAt)];
    const moved = bias ? ops.add(sum, bias) : sum;
    const inputs = [moved, ...call.inputs.slice(2, biasAt)];
    return [norm({ ...call, inputs })[0], undefined, undefined, moved];
  };

/** Rotates the first `rotary_embedding_dim` elements of each head by the angles in two tables. */
const rotary: Operator = (call) => {
  const x = value(call, 0);
  const heads = headsOf(call, x, int(call, 'num_heads', 0));
  const size = heads.shape[3]!;
  const rotated = int(call, 'rotary_embedding_dim', 0) || size;
  const isInterleaved = int(call, 'interleaved', 0) === 1;
  const places = optional(call, 3);
  const [cos, sin] = [1, 2].map((i) => {
    const table = places ? ops.gather(value(call, i), places) : value(call, i); // (B, T, d/2)
    return ops.reshape(table, [table.shape[0]!, 1, table.shape[1]!, table.shape[2]!]);
  });
  const [turning, rest] = rotated < size ? ops.split(heads, 3, [rotated, size - rotated]) : [heads];
  const shape = turning!.shape;
  const half = rotated / 2;
  const pairs = isInterleaved
    ? ops.transpose(ops.reshape(turning!, [...shape.slice(0, 3), half, 2]), [0, 1, 2, 4, 3])
    : ops.reshape(turning!, [...shape.slice(0, 3), 2, half]);
  const [a, b] = ops
    .split(pairs, 3, [1, 1])
    .map((each) => ops.reshape(each, [...shape.slice(0, 3), half]));
  const low = ops.sub(ops.mul(a!, cos!), ops.mul(b!, sin!));
  const high = ops.add(ops.mul(b!, cos!), ops.mul(a!, sin!));
  const wide = (each: Value) => ops.reshape(each, [...shape.slice(0, 3), half, 1]);
  const joined = isInterleaved
    ? ops.reshape(ops.concat([wide(low), wide(high)], 4), shape)
    : ops.concat([low, high], 3);
  const all = rest ? ops.concat([joined, rest], 3) : joined;
  return [x.shape.length === 4 ? all : joinHeads(all)];
};

/** Einsum of two operands whose letters each occur once per operand: as one stacked matrix product. */
const einsum: Operator = (call) => {
  const equation = textOf(call, 'equation', '').replaceAll(' ', '');
  const [left, right, out] =
    /^([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]*)$/.exec(equation)?.slice(1) ?? [];
  const letters = (text: string) => [...text];
  const isPlain = [left, right].every((text) => text && new Set(text).size === text.length);
  if (!isPlain || out === undefined) {
    throw refusal(call, `${JSON.stringify(equation)} is not a product of two tensors`, EINSUM);
  }
  const [a, b] = [value(call, 0), value(call, 1)];
  const size = (letter: string) =>
    left!.includes(letter) ? a.shape[left!.indexOf(letter)]! : b.shape[right!.indexOf(letter)]!;
  const inBoth = letters(left!).filter((letter) => right!.includes(letter));
  const stack = inBoth.filter((letter) => out.includes(letter));
  const summed = inBoth.filter((letter) => !out.includes(letter));
  const [rows, columns] = [left!, right!].map((text) =>
    letters(text).filter((letter) => !inBoth.includes(letter)),
  );
  if (![...rows!, ...columns!].every((letter) => out.includes(letter))) {
    throw refusal(call, `${JSON.stringify(equation)} sums a letter of one tensor`, EINSUM);
  }
  const total = (group: readonly string[]) => sizeOf(group.map(size));
  const arranged = (x: Value, text: string, groups: readonly (readonly string[])[]) =>
    ops.reshape(
      ops.transpose(
        x,
        groups.flat().map((letter) => text.indexOf(letter)),
      ),
      groups.map(total),
    );
  const made = ops.matmul(
    arranged(a, left!, [stack, rows!, summed]),
    arranged(b, right!, [stack, summed, columns!]),
  );
  const order = [...stack, ...rows!, ...columns!];
  const wide = ops.reshape(made, order.map(size));
  return [
    out.length === 0
      ? wide
      : ops.transpose(
          wide,
          letters(out).map((letter) => order.indexOf(letter)),
        ),
  ];
};

const EINSUM = 'write it with matmul before exporting';

export const products: Operators = {
  MatMul: (call) => [product(value(call, 0), value(call, 1))],
  Gemm: gemm,
  'com.microsoft:FusedMatMul': fusedMatmul,
  Einsum: einsum,
  Softmax: along(ops.softmax),
  LogSoftmax: along(ops.logSoftmax),
  LayerNormalization: layerNorm,
  RMSNormalization: rmsNorm,
  SimplifiedLayerNormalization: rmsNorm,
  InstanceNormalization: instanceNorm,
  GroupNormalization: groupNorm,
  BatchNormalization: batchNorm,
  LpNormalization: lpNorm,
  Attention: attention,
  'com.microsoft:MultiHeadAttention': multiHeadAttention,
  'com.microsoft:Attention': packedAttention,
  'com.microsoft:SkipLayerNormalization': skipping(layerNorm, 4),
  'com.microsoft:SkipSimplifiedLayerNormalization': skipping(rmsNorm, 3),
  RotaryEmbedding: rotary,
};
