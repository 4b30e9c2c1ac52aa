/** At least one case per op, so that an op without a test does not compile. */
import {
  createGraph,
  type DType,
  encodeModel,
  type GraphTarget,
  gradients,
  lower,
  type Value,
} from 'nostrain/model';
import type { OpName } from '../../../src/model/graph/rule.ts';
import * as v from '../../../src/model/graph/verbs.ts';
import { erf } from '../../support/ort-erf.ts';
import { windowCases } from './window-cases.ts';

type Build = (x: Value, y: Value, z: Value) => Value;

export interface OpCase {
  readonly title: string;
  /** Shapes of the differentiable operands. */
  readonly shapes: readonly (readonly number[])[];
  /** Elements are drawn from this range, at least 0.05 away from `kinks`. */
  readonly range?: readonly [low: number, high: number];
  readonly kinks?: readonly number[];
  readonly build: Build;
  /** For ops that onnxruntime cannot run in f64: the same in TypeScript. */
  readonly reference?: (elements: readonly number[]) => readonly number[];
}

const one = (title: string, build: Build, rest: Partial<OpCase> = {}): OpCase => ({
  title,
  shapes: [[2, 3]],
  build,
  ...rest,
});

const two = (
  title: string,
  a: readonly number[],
  b: readonly number[],
  build: Build,
  rest: Partial<OpCase> = {},
): OpCase => ({ title, shapes: [a, b], build, ...rest });

/** An elementwise op of two operands: alike, and broadcasting in every direction. */
const broadcasting = (name: string, build: Build, rest: Partial<OpCase> = {}) => [
  two(`${name}, same shapes`, [2, 3], [2, 3], build, rest),
  two(`${name}, a row`, [4, 3], [3], build, rest),
  two(`${name}, a column and a row`, [3, 1], [1, 4], build, rest),
  two(`${name}, a scalar`, [2, 2], [], build, rest),
  two(`${name}, an inner axis`, [2, 3, 2], [2, 1, 2], build, rest),
];

const positive = { range: [0.4, 2] } as const;
const indices = (like: Value, elements: readonly number[]): Value =>
  like.graph.constant({ dtype: 'i32', shape: [elements.length] }, elements);

/** Rows of 64 numbers held in few bits. */
function few(like: Value, dtype: 'f16' | 'i8' | 'u8', rows: number): Value {
  const constant = (type: DType, width: number, at: (i: number) => number) =>
    like.graph.constant(
      { dtype: type, shape: [rows, width] },
      Array.from({ length: rows * width }, (_, i) => at(i)),
    );
  const scale = constant('f16', 2, (i) => 0.01 * (i + 1));
  const parts = {
    f16: [constant('f16', 64, (i) => Math.sin(i * i))],
    i8: [constant('i8', 64, (i) => (i * 37) % 127), scale],
    u8: [
      constant('u8', 32, (i) => (i * 37) % 256),
      scale,
      constant('f16', 2, (i) => 0.1 * (i - 2)),
    ],
  }[dtype];
  return v.widen([parts[0]!, ...parts.slice(1)], real(like));
}

export const cases: { readonly [K in OpName]: readonly OpCase[] } = {
  ...windowCases,
  add: broadcasting('add', v.add),
  sub: broadcasting('sub', v.sub),
  mul: broadcasting('mul', v.mul),
  div: broadcasting('div', v.div, positive),
  pow: broadcasting('pow', v.pow, positive),
  maximum: [
    two('maximum', [2, 3], [2, 3], v.maximum),
    two('maximum, ties', [3], [3], (x, y) => v.maximum(v.add(x, y), v.add(y, x))),
  ],
  minimum: [two('minimum', [2, 3], [3], v.minimum)],
  neg: [one('neg', v.neg)],
  abs: [one('abs', v.abs, { kinks: [0] })],
  sign: [one('sign', (x) => v.mul(v.sign(x), x), { kinks: [0] })],
  exp: [one('exp', v.exp)],
  log: [one('log', v.log, positive)],
  sqrt: [one('sqrt', v.sqrt, positive)],
  erf: [one('erf', v.erf, { range: [-2, 2], reference: (x) => x.map(erf) })],
  sin: [one('sin', v.sin)],
  cos: [one('cos', v.cos)],
  tanh: [one('tanh', v.tanh)],
  sigmoid: [one('sigmoid', v.sigmoid)],
  relu: [one('relu', v.relu, { kinks: [0] })],
  clip: [one('clip', (x) => v.clip(x, -0.5, 0.5), { kinks: [-0.5, 0.5] })],
  erfGate: [
    one('erfGate', v.erfGate, {
      range: [-2, 2],
      reference: (x) => x.map((a) => a * (1 + erf(a))),
    }),
  ],
  gemm: [false, true].flatMap((transA) =>
    [false, true].map((transB) => ({
      title: `gemm, transA ${transA}, transB ${transB}`,
      shapes: [transA ? [4, 3] : [3, 4], transB ? [2, 4] : [4, 2], [2]],
      build: (x: Value, y: Value, z: Value) =>
        v.gemm(x, y, { c: z, transA, transB, alpha: 0.7, beta: 1.3 }),
    })),
  ),
  matmul: [
    ...[false, true].flatMap((transA) =>
      [false, true].map((transB) =>
        two(
          `matmul, transA ${transA}, transB ${transB}`,
          transA ? [2, 3, 2] : [2, 2, 3],
          transB ? [2, 4, 3] : [2, 3, 4],
          (x, y) => v.matmul(x, y, { transA, transB, alpha: 0.7 }),
        ),
      ),
    ),
    two('matmul, plain', [2, 3], [3, 2], (x, y) => v.matmul(x, y)),
    two('matmul, one matrix for a stack', [3, 2, 3], [3, 2], (x, y) => v.matmul(x, y)),
  ],
  reshape: [
    one('reshape', (x) => v.reshape(x, [3, 2])),
    one('reshape to what is left', (x) => v.reshape(x, [3, -1])),
  ],
  transpose: [
    one('transpose', (x) => v.transpose(x)),
    one('transpose, three axes', (x) => v.transpose(x, [1, 2, 0]), { shapes: [[2, 3, 2]] }),
  ],
  expand: [one('expand', (x) => v.expand(x, [2, 2, 3]), { shapes: [[2, 1]] })],
  concat: [two('concat', [2, 1], [2, 3], (x, y) => v.concat([x, y, x], 1))],
  split: [
    one(
      'split',
      (x) => {
        const [a, , c] = v.split(x, 1, [1, 2, 1]);
        return v.mul(a!, v.exp(c!)); // the middle piece has no gradient
      },
      { shapes: [[2, 4]] },
    ),
  ],
  slice: [one('slice', (x) => v.slice(x, -1, 1, 3))],
  pad: [one('pad', (x) => v.pad(x, 1, 2, 1))],
  after: [two('after', [2, 3], [2], (x, y) => v.mul(v.after(x, v.exp(y)), v.reduceSum(y)))],
  reduceSum: [
    one('reduceSum, one axis', (x) => v.reduceSum(x, [1])),
    one('reduceSum, kept', (x) => v.reduceSum(x, [0], true)),
    one('reduceSum, all', (x) => v.reduceSum(x)),
  ],
  reduceMean: [
    one('reduceMean, one axis', (x) => v.reduceMean(x, [-1])),
    one('reduceMean, all', (x) => v.reduceMean(x)),
  ],
  reduceMax: [
    one('reduceMax', (x) => v.reduceMax(x, [1])),
    one('reduceMax, ties', (x) => v.reduceMax(v.concat([x, x], 1), [1], true)),
  ],
  argMax: [one('argMax', (x) => v.mul(v.cast(v.argMax(x, 1), x.dtype), v.reduceSum(x, [1], true)))],
  equal: [one('equal', (x) => v.where(v.equal(x, x), v.square(x), x))],
  less: [one('less', (x) => v.where(v.less(x, 0.3), v.square(x), x), { kinks: [0.3] })],
  greater: [one('greater', (x) => v.where(v.greater(x, 0.3), v.square(x), x), { kinks: [0.3] })],
  not: [one('not', (x) => v.where(v.not(v.greater(x, 0)), v.square(x), x), { kinks: [0] })],
  where: [
    two('where', [2, 3], [3], (x, y) => v.where(v.greater(x, 0.1), v.square(x), y), {
      kinks: [0.1],
    }),
  ],
  cast: [one('cast', (x) => v.square(v.cast(x, 'f64')))],
  gather: [
    one('gather, a small table', (x) => v.gather(x, indices(x, [2, 0, 2, 1, 2])), {
      shapes: [[4, 2]],
    }),
    one('gather, a scalar index', (x) =>
      v.gather(x, x.graph.constant({ dtype: 'i64', shape: [] }, [1])),
    ),
  ],
  // as the derivative of gather from a table of more than 1024 rows; most of them are constant here
  scatterRows: [
    one(
      'gather, a large table',
      (x) => {
        const rest = v.filled(x, [1100, 2], 0.5);
        return v.gather(v.concat([x, rest], 0), indices(x, [2, 0, 1, 1000, 0]));
      },
      { shapes: [[3, 2]] },
    ),
  ],
  pick: [one('pick', (x) => v.pick(x, indices(x, [2, 0])))],
  oneHot: [one('oneHot', (x) => v.mul(v.oneHot(indices(x, [2, 0]), 3, real(x)), x))],
  softmax: [one('softmax', v.softmax)],
  logSoftmax: [one('logSoftmax', v.logSoftmax)],
  slicedCrossEntropy: [
    ...[2, 3, 5].map((rows) =>
      two(`slicedCrossEntropy, ${rows} rows at once`, [5, 3], [4, 3], (x, y) =>
        v.slicedCrossEntropy(x, y, indices(x, [2, 0, 3, 3, 1]), rows),
      ),
    ),
    one(
      'slicedCrossEntropy of a frozen layer',
      (x) => {
        const frozen = v.constantLike(x, [4, 3], [1, -2, 3, 0.5, 0, -1, 2, 2, 1, -1, 0.25, 0]);
        return v.slicedCrossEntropy(x, frozen, indices(x, [2, 0, 3, 3, 1]), 2);
      },
      { shapes: [[5, 3]] },
    ),
  ],
  // has no derivative, and constants of its own; test/node/engine/text-reader.test.ts runs it
  blockProduct: [],
  widen: [
    ...(['f16', 'i8', 'u8'] as const).map((dtype) =>
      one(`widen, ${dtype}`, (x) => v.mul(few(x, dtype, 2), x), { shapes: [[2, 64]] }),
    ),
    ...(['f16', 'i8', 'u8'] as const).map((dtype) =>
      one(
        `widen, ${dtype}, some rows by a product`,
        (x) => v.gemm(x, v.gather(few(x, dtype, 5), indices(x, [4, 0, 4])), { transB: true }),
        { shapes: [[2, 64]] },
      ),
    ),
  ],
  piecedCrossEntropy: (['f16', 'i8', 'u8'] as const).flatMap((dtype) =>
    [2, 3, 7].map((rows) =>
      one(
        `piecedCrossEntropy, ${dtype}, ${rows} rows at once`,
        (x) => v.piecedCrossEntropy(x, few(x, dtype, 7), indices(x, [6, 0, 3, 3, 1]), rows),
        { shapes: [[5, 64]] },
      ),
    ),
  ),
  crossEntropy: [one('crossEntropy', (x) => v.crossEntropy(x, indices(x, [2, 0])))],
  standardize: [one('standardize', (x) => v.standardize(x, 1e-5), { shapes: [[2, 5]] })],
  rmsNorm: [
    two('rmsNorm', [2, 5], [5], (x, y) => v.rmsNorm(x, y, 1e-5)),
    two('rmsNorm of heads', [1, 2, 3, 4], [4], (x, y) => v.rmsNorm(x, y, 1e-5)),
  ],
  rotary: [
    one(
      'rotary',
      (x) => {
        const angles = Array.from({ length: 9 }, (_, i) => 0.7 * i);
        const table = (f: (angle: number) => number) =>
          v.constantLike(x, [3, 3], angles.map(f).map(Math.fround));
        return v.rotary(x, table(Math.cos), table(Math.sin));
      },
      { shapes: [[2, 2, 3, 6]] },
    ),
  ],
  swiglu: [two('swiglu', [2, 3], [2, 3], v.swiglu)],
  groupedAttention: [0, 2].map((window) => ({
    title: `groupedAttention, window ${window}`,
    shapes: [
      [2, 4, 3, 2],
      [2, 2, 3, 2],
      [2, 2, 3, 2],
    ],
    build: (q: Value, k: Value, value: Value) =>
      v.groupedAttention(q, k, value, { scale: 0.8, window }),
  })),
  causalAttention: [
    {
      title: 'causalAttention',
      shapes: [
        [1, 2, 3, 2],
        [1, 2, 3, 2],
        [1, 2, 3, 2],
      ],
      build: (q, k, value) => v.causalAttention(q, k, value, 0.8),
    },
  ],
};

const real = (x: Value): 'f32' | 'f64' => (x.dtype === 'f32' ? 'f32' : 'f64');

/** A case in f32 with all its gradients, for any target. */
export function programOf({ shapes, build }: Pick<OpCase, 'shapes' | 'build'>) {
  const graph = createGraph();
  const operands = shapes.map((shape, i) => graph.input(`x${i}`, { dtype: 'f32', shape }));
  const loss = v.reduceSum(build(operands[0]!, operands[1]!, operands[2]!));
  gradients(graph, loss, operands).forEach((gradient, i) => {
    graph.output(`d${i}`, gradient);
  });
  return (target: GraphTarget) => encodeModel(lower(graph, 'op', { target }));
}
