/** Fused ops (softmax, cross-entropy, normalization) with faster or more stable derivatives than their parts. */
import {
  type Derivation,
  type Emission,
  type Emitter,
  each,
  integers,
  isFloat,
  type OpAttributes,
  type OpRules,
  type Plain,
  type Value,
  type ValueType,
  withDim,
} from '../rule.ts';
import {
  after,
  concat,
  exp,
  gather,
  gemm,
  mul,
  oneHot,
  reduceMean,
  reduceSum,
  reshape,
  scatterRows,
  slice,
  softmax,
  sub,
} from '../verbs.ts';
import { emitCut, emitJoin } from './shaping.ts';

const real = ([a]: readonly ValueType[]): readonly ValueType[] => {
  if (!a || !isFloat(a.dtype) || a.shape.length === 0) {
    throw new TypeError('a float tensor with at least one axis is needed');
  }
  return [a];
};

const lastAxis = { axis: { int: -1 } };
const keepLast = { keepdims: { int: 1 } };

/** Emits log softmax of `x`, as one operator or from basic operators that every backend has. */
function emitLogSoftmax(to: Emitter, x: string, output?: string): string {
  const options = output === undefined ? {} : { outputs: [output] };
  if (to.target !== 'webgpu')
    return to.node('LogSoftmax', [x], { attributes: lastAxis, ...options });
  const axes = integers(to, [-1]);
  const highest = to.node('ReduceMax', [x, axes], { attributes: keepLast });
  const shifted = to.node('Sub', [x, highest]);
  const sum = to.node('ReduceSum', [to.node('Exp', [shifted]), axes], { attributes: keepLast });
  return to.node('Sub', [shifted, to.node('Log', [sum])], options);
}

function emitCrossEntropy(e: Emission<Plain>): void {
  const [logits, targets] = e.inputs;
  const [losses, logs] = e.outputs;
  emitLogSoftmax(e.to, logits!.name, logs!.name);
  emitLosses(e.to, logs!.name, targets!.name, losses!.name);
}

/** Emits -logs[i, targets[i]] for every row i. */
function emitLosses(to: Emitter, logs: string, targets: string, output?: string): string {
  const axes = integers(to, [1]);
  const column = to.node('Unsqueeze', [targets, axes]);
  const gathered = to.node('GatherElements', [logs, column], { attributes: { axis: { int: 1 } } });
  const picked = to.node('Squeeze', [gathered, axes]);
  return to.node('Neg', [picked], output === undefined ? {} : { outputs: [output] });
}

/** Returns the ranges of at most `rows` rows each that cover `total` rows. */
const slicesOf = (total: number, rows: number): readonly (readonly [from: number, to: number])[] =>
  Array.from({ length: Math.ceil(total / rows) }, (_, i) => [
    i * rows,
    Math.min(total, (i + 1) * rows),
  ]);

/** Emits the losses range by range and, if the derivative needs it, the gradient by each row: (p - onehot) weight. */
function emitSliced(e: Emission<OpAttributes['slicedCrossEntropy']>): void {
  const { inputs, outputs, attributes, to } = e;
  const [x, weight, targets] = inputs;
  const losses: string[] = [];
  const slopes: string[] = [];
  for (const [start, end] of slicesOf(x!.shape[0]!, attributes.rows)) {
    const rows = emitCut(to, x!, { axis: 0, start, end });
    const logits = to.node('Gemm', [rows, weight!.name], {
      attributes: { transB: { int: 1 } },
    });
    const part = emitCut(to, targets!, { axis: 0, start, end });
    const logs = emitLogSoftmax(to, logits);
    losses.push(emitLosses(to, logs, part));
    if (!e.uses(1)) continue;
    const mean = to.node('Gemm', [to.node('Exp', [logs]), weight!.name]);
    slopes.push(to.node('Sub', [mean, to.node('Gather', [weight!.name, part])]));
  }
  const joined = { axis: 0, dtype: x!.dtype };
  emitJoin(to, losses, joined, outputs[0]!.name);
  if (e.uses(1)) emitJoin(to, slopes, joined, outputs[1]!.name);
}

/**
 * A frozen weight needs only the saved slopes. For a trained weight, the logits of each range are recomputed after the
 * range before it, so that two are never in memory at once.
 */
function deriveSliced(
  d: Derivation<OpAttributes['slicedCrossEntropy']>,
): readonly (Value | undefined)[] {
  const { grad, inputs, outputs, attributes, wants } = d;
  const [x, weight, targets] = inputs;
  const column = reshape(grad, [x!.shape[0]!, 1]);
  if (!wants(1)) return [mul(outputs[1]!, column)];
  const byRows: Value[] = [];
  let byWeight: Value | undefined;
  for (const [from, to] of slicesOf(x!.shape[0]!, attributes.rows)) {
    let part = slice(x!, 0, from, to);
    for (const done of [byRows.at(-1), byWeight]) if (done) part = after(part, done);
    const shares = softmax(gemm(part, weight!, { transB: true }));
    const scaled = mul(shares, slice(column, 0, from, to));
    if (wants(0)) byRows.push(gemm(scaled, weight!));
    byWeight = gemm(scaled, part, { transA: true, c: byWeight });
  }
  const [first, ...rest] = byRows;
  return [
    first && sub(concat([first, ...rest], 0), mul(gather(weight!, targets!), column)),
    sub(byWeight!, scatterRows(mul(x!, column), targets!, weight!.shape[0]!)),
  ];
}

/** Emits LayerNormalization without scale; from basic operators for f64, whose kernel returns its statistics as f32. */
function emitStandardize(e: Emission<OpAttributes['standardize']>): void {
  const x = e.inputs[0]!;
  const [y, inverse] = e.outputs;
  const { epsilon } = e.attributes;
  if (x.dtype === 'f32' && e.to.target !== 'webgpu') {
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
      emitLogSoftmax(e.to, e.inputs[0]!.name, e.outputs[0]!.name);
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
  slicedCrossEntropy: {
    infer: ([x, weight, targets]) => {
      const [rows, width] = x?.shape ?? [];
      if (
        x?.shape.length !== 2 ||
        weight?.shape[1] !== width ||
        targets?.shape.join() !== `${rows}`
      ) {
        throw new TypeError('cross-entropy takes rows, a weight [V, width] and one target per row');
      }
      return [{ dtype: x.dtype, shape: targets.shape }, x];
    },
    saves: true,
    emit: emitSliced,
    derive: deriveSliced,
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
} satisfies OpRules;
