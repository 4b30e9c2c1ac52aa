/**
 * Fused ops (softmax, cross-entropy, normalization, attention) whose own derivative is faster or numerically more stable than
 * that of their parts.
 */
import { type Emission, each, integers, type OpRule } from '../rule.ts';
import type { OpAttributes, Plain } from '../signatures.ts';
import { isFloat, sameShape, type ValueType, withDim } from '../value.ts';
import { exp, matmul, mul, oneHot, reduceMean, reduceSum, reshape, sub } from '../verbs.ts';

type Composite = 'softmax' | 'logSoftmax' | 'crossEntropy' | 'standardize' | 'causalAttention';

const real = ([a]: readonly ValueType[]): readonly ValueType[] => {
  if (!a || !isFloat(a.dtype) || a.shape.length === 0) {
    throw new TypeError('a real tensor with a last axis is needed');
  }
  return [a];
};

/** Far below every score: its share of the weight underflows to nothing. */
const NEVER = -1e9;
/**
 * The most a score may be where its position must not be seen. In f32 its share, e^-60 of a visible score of 0, is lost in
 * rounding as long as one visible score is above -40. Lower would do no harm but cost much: onnxruntime's softmax turns
 * everything below -87 into denormal numbers, with which some processors compute a hundred times slower.
 */
const UNSEEN = -60;
const UNBOUNDED = 3e38;

const lastAxis = { axis: { int: -1 } };
const keepLast = { keepdims: { int: 1 } };

/** log softmax of `x`, from the one operator or from parts that every backend has. */
function emitLogSoftmax(e: Emission<Plain>, x: string, output?: string): string {
  const options = output === undefined ? {} : { outputs: [output] };
  if (!e.to.portable) return e.to.node('LogSoftmax', [x], { attributes: lastAxis, ...options });
  const axes = integers(e.to, [-1]);
  const highest = e.to.node('ReduceMax', [x, axes], { attributes: keepLast });
  const shifted = e.to.node('Sub', [x, highest]);
  const sum = e.to.node('ReduceSum', [e.to.node('Exp', [shifted]), axes], { attributes: keepLast });
  return e.to.node('Sub', [shifted, e.to.node('Log', [sum])], options);
}

function emitCrossEntropy(e: Emission<Plain>): void {
  const [logits, targets] = e.inputs;
  const [losses, logs] = e.outputs;
  emitLogSoftmax(e, logits!.name, logs!.name);
  const axes = integers(e.to, [1]);
  const column = e.to.node('Unsqueeze', [targets!.name, axes]);
  const found = e.to.node('GatherElements', [logs!.name, column], {
    attributes: { axis: { int: 1 } },
  });
  e.to.node('Neg', [e.to.node('Squeeze', [found, axes])], { outputs: [losses!.name] });
}

/** One LayerNormalization without scale; from parts for doubles, whose kernel returns its statistics as f32. */
function emitStandardize(e: Emission<OpAttributes['standardize']>): void {
  const x = e.inputs[0]!;
  const [y, inverse] = e.outputs;
  const { epsilon } = e.attributes;
  if (x.dtype === 'f32' && !e.to.portable) {
    const width = x.shape[x.shape.length - 1]!;
    const ones = e.to.constant('f32', [width], new Float32Array(width).fill(1));
    e.to.node('LayerNormalization', [x.name, ones], {
      attributes: { axis: { int: -1 }, epsilon: { float: epsilon } },
      outputs: [y!.name, '', inverse!.name],
    });
    return;
  }
  const axes = integers(e.to, [-1]);
  const scalar = (value: number) => e.to.constant(x.dtype, [], [value]);
  const mean = e.to.node('ReduceMean', [x.name, axes], { attributes: keepLast });
  const centered = e.to.node('Sub', [x.name, mean]);
  const squared = e.to.node('Mul', [centered, centered]);
  const variance = e.to.node('ReduceMean', [squared, axes], { attributes: keepLast });
  const deviation = e.to.node('Sqrt', [e.to.node('Add', [variance, scalar(epsilon)])]);
  e.to.node('Div', [scalar(1), deviation], { outputs: [inverse!.name] });
  e.to.node('Mul', [centered, inverse!.name], { outputs: [y!.name] });
}

function emitAttention(e: Emission<OpAttributes['causalAttention']>): void {
  const [q, k, v] = e.inputs;
  const [o, weights] = e.outputs;
  const length = q!.shape[q!.shape.length - 2]!;
  const alpha = e.attributes.scale;
  let scores: string;
  if (e.to.portable || q!.dtype !== 'f32') {
    const rank = q!.shape.length;
    const perm = { ints: [...Array(rank - 2).keys(), rank - 1, rank - 2] };
    const turned = e.to.node('Transpose', [k!.name], { attributes: { perm } });
    const raw = e.to.node('MatMul', [q!.name, turned]);
    scores = e.to.node('Mul', [raw, e.to.constant(q!.dtype, [], [alpha])]);
  } else {
    scores = e.to.node('FusedMatMul', [q!.name, k!.name], {
      domain: 'com.microsoft',
      attributes: { transB: { int: 1 }, alpha: { float: alpha } },
    });
  }
  const masked = e.to.portable
    ? e.to.node('Add', [scores, e.to.constant(q!.dtype, [length, length], mask(length, 0, NEVER))])
    : e.to.node('Min', [
        scores,
        e.to.constant(q!.dtype, [length, length], mask(length, UNBOUNDED, UNSEEN)),
      ]);
  e.to.node('Softmax', [masked], { attributes: lastAxis, outputs: [weights!.name] });
  e.to.node('MatMul', [weights!.name, v!.name], { outputs: [o!.name] });
}

/** One number on and below the diagonal, another above it. */
function mask(length: number, seen: number, unseen: number): Float32Array {
  const square = new Float32Array(length * length).fill(seen);
  for (let row = 0; row < length; row++) {
    square.fill(unseen, row * length + row + 1, (row + 1) * length);
  }
  return square;
}

export const composite = {
  softmax: {
    infer: real,
    emit: ({ inputs: [x], outputs: [y], to }) => {
      to.node('Softmax', [x!.name], { attributes: lastAxis, outputs: [y!.name] });
    },
    derive: each(({ grad, outputs: [y] }) =>
      mul(y!, sub(grad, reduceSum(mul(grad, y!), [-1], true))),
    ),
  },
  logSoftmax: {
    infer: real,
    emit: (e) => {
      emitLogSoftmax(e, e.inputs[0]!.name, e.outputs[0]!.name);
    },
    derive: each(({ grad, outputs: [y] }) => sub(grad, mul(exp(y!), reduceSum(grad, [-1], true)))),
  },
  crossEntropy: {
    infer: ([logits, targets]) => {
      if (logits?.shape.length !== 2 || targets?.shape.join() !== String(logits.shape[0])) {
        throw new TypeError('cross-entropy takes a matrix of logits and one target per row');
      }
      return [{ dtype: logits.dtype, shape: targets.shape }, logits];
    },
    saves: true,
    emit: emitCrossEntropy,
    derive: ({ grad, inputs: [logits, targets], outputs: [, logs] }) => {
      const [rows, depth] = logits!.shape;
      const excess = sub(exp(logs!), oneHot(targets!, depth!, logits!.dtype));
      return [mul(excess, reshape(grad, [rows!, 1])), undefined];
    },
  },
  standardize: {
    infer: ([x]) => {
      const [y] = real([x!]);
      return [y!, { dtype: x!.dtype, shape: withDim(x!.shape, x!.shape.length - 1, 1) }];
    },
    saves: true,
    emit: emitStandardize,
    derive: each(({ grad, outputs: [y, inverse] }) => {
      const slope = reduceMean(mul(grad, y!), [-1], true);
      const centered = sub(grad, reduceMean(grad, [-1], true));
      return mul(sub(centered, mul(y!, slope)), inverse!);
    }),
  },
  // The row sums of dP * P equal those of dO * O, which is a smaller tensor.
  causalAttention: {
    infer: ([q, k, v]) => {
      if (!q || !k || !v || !sameShape(q.shape, k.shape) || !sameShape(q.shape, v.shape)) {
        throw new TypeError('attention takes queries, keys and values of one shape');
      }
      const length = q.shape[q.shape.length - 2]!;
      return [q, { dtype: q.dtype, shape: [...q.shape.slice(0, -1), length] }];
    },
    saves: true,
    emit: emitAttention,
    derive: ({ grad, inputs: [q, k, v], outputs: [o, weights], attributes }) => {
      const alpha = attributes.scale;
      const delta = reduceSum(mul(grad, o!), [-1], true);
      const scores = mul(sub(matmul(grad, v!, { transB: true }), delta), weights!);
      return [
        matmul(scores, k!, { alpha }),
        matmul(scores, q!, { transA: true, alpha }),
        matmul(weights!, grad, { transA: true }),
      ];
    },
  },
} satisfies { [K in Composite]: OpRule<OpAttributes[K]> };
