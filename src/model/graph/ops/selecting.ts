/** Comparison ops, `where` and `cast`, reductions over axes, and picking by index. */

import { ELEMENT_TYPE } from '../../onnx.ts';
import {
  broadcast,
  direct,
  type Emission,
  each,
  integers,
  isFloat,
  type OpAttributes,
  type OpRule,
  type OpRules,
  type Plain,
  type Reduction,
  sizeOf,
  type Value,
  type ValueType,
  withDim,
} from '../rule.ts';
import {
  cast,
  constantLike,
  div,
  equal,
  expand,
  gemm,
  mul,
  oneHot,
  reduceSum,
  reshape,
  scatterRows,
  sumTo,
  where,
} from '../verbs.ts';

const compared = ([a, b]: readonly ValueType[]): readonly ValueType[] => {
  if (!a || !b || a.dtype !== b.dtype)
    throw new TypeError('a comparison takes two values of one type');
  return [{ dtype: 'bool', shape: broadcast(a.shape, b.shape) }];
};

const comparison = (type: string): OpRule<Plain> => ({
  infer: compared,
  emit: direct(type),
  derive: 'booleans have no derivative',
});

const kept = (shape: readonly number[], axes: readonly number[]): readonly number[] =>
  shape.map((dim, i) => (axes.includes(i) ? 1 : dim));

const reduced = ([a]: readonly ValueType[], { axes, keep }: Reduction): readonly ValueType[] => [
  {
    dtype: a!.dtype,
    shape: keep ? kept(a!.shape, axes) : a!.shape.filter((_, i) => !axes.includes(i)),
  },
];

/** Since opset 18 the axes of these two are an input, except ReduceMax whose form is the same. */
const emit =
  (type: string): OpRule<Reduction>['emit'] =>
  ({ inputs: [a], outputs: [y], attributes: { axes, keep }, to }) => {
    to.node(type, [a!.name, integers(to, axes)], {
      attributes: { keepdims: { int: Number(keep) } },
      outputs: [y!.name],
    });
  };

/** Repeats a value of the reduced shape over the reduced axes. */
const expandReduced = (value: Value, like: Value, axes: readonly number[]): Value =>
  expand(reshape(value, kept(like.shape, axes)), like.shape);

/** Maximum rows of a table whose gradient is one product with one-hot rows; in larger tables rows are scattered. */
const SMALL_TABLE = 1024;

function indices(value: ValueType | undefined): ValueType {
  if (value?.dtype !== 'i32' && value?.dtype !== 'i64') {
    throw new TypeError(`indices must be integers, not ${value?.dtype}`);
  }
  return value;
}

/** Emits comparisons with 0, 1, 2, ...: as fast as the OneHot operator and available on every backend. */
function emitOneHot(e: Emission<OpAttributes['oneHot']>): void {
  const { depth, to: dtype } = e.attributes;
  const [rows, y] = [e.inputs[0]!, e.outputs[0]!];
  const column = e.to.node('Unsqueeze', [rows.name, integers(e.to, [-1])]);
  const numbers = e.to.constant(rows.dtype, [depth], [...Array(depth).keys()]);
  e.to.node('Cast', [e.to.node('Equal', [column, numbers])], {
    attributes: { to: { int: ELEMENT_TYPE[dtype] } },
    outputs: [y.name],
  });
}

export const selecting = {
  equal: comparison('Equal'),
  less: comparison('Less'),
  greater: comparison('Greater'),
  not: {
    infer: ([a]) => [a!],
    emit: direct('Not'),
    derive: 'booleans have no derivative',
  },
  where: {
    infer: ([condition, a, b]) => {
      if (condition?.dtype !== 'bool' || !a || a.dtype !== b?.dtype) {
        throw new TypeError('where takes a condition and two values of one type');
      }
      return [{ dtype: a.dtype, shape: broadcast(condition.shape, broadcast(a.shape, b.shape)) }];
    },
    emit: direct('Where'),
    derive: ({ grad, inputs: [condition, a, b], wants }) => {
      const zero = constantLike(grad, [], [0]);
      return [
        undefined,
        wants(1) ? sumTo(where(condition!, grad, zero), a!.shape) : undefined,
        wants(2) ? sumTo(where(condition!, zero, grad), b!.shape) : undefined,
      ];
    },
  },
  cast: {
    infer: ([a], { to }) => [{ dtype: to, shape: a!.shape }],
    emit: direct('Cast', ({ to }) => ({ to: { int: ELEMENT_TYPE[to] } })),
    derive: each(({ grad, inputs: [a] }) => cast(grad, a!.dtype)),
  },
  reduceSum: {
    infer: reduced,
    emit: emit('ReduceSum'),
    derive: each(({ grad, inputs: [a], attributes: { axes } }) => expandReduced(grad, a!, axes)),
  },
  reduceMean: {
    infer: reduced,
    emit: emit('ReduceMean'),
    derive: each(({ grad, inputs: [a], outputs: [y], attributes: { axes } }) =>
      expandReduced(div(grad, sizeOf(a!.shape) / sizeOf(y!.shape)), a!, axes),
    ),
  },
  // ties share the gradient equally
  reduceMax: {
    infer: reduced,
    emit: emit('ReduceMax'),
    derive: each(({ grad, inputs: [a], outputs: [y], attributes: { axes } }) => {
      const highest = cast(equal(a!, reshape(y!, kept(a!.shape, axes))), a!.dtype);
      const share = div(reshape(grad, kept(a!.shape, axes)), reduceSum(highest, axes, true));
      return mul(highest, share);
    }),
  },
  argMax: {
    infer: ([a], { axis }) => [{ dtype: 'i64', shape: withDim(a!.shape, axis, 1) }],
    emit: ({ inputs: [a], outputs: [y], attributes: { axis }, to }) => {
      to.node('ArgMax', [a!.name], {
        attributes: { axis: { int: axis }, keepdims: { int: 1 } },
        outputs: [y!.name],
      });
    },
    derive: 'an argmax is an integer and has no derivative',
  },
  gather: {
    infer: ([table, rows]) => [
      { dtype: table!.dtype, shape: [...indices(rows).shape, ...table!.shape.slice(1)] },
    ],
    emit: ({ inputs: [table, rows], outputs: [y], to }) => {
      to.node('Gather', [table!.name, rows!.name], {
        attributes: { axis: { int: 0 } },
        outputs: [y!.name],
      });
    },
    derive: each(({ grad, inputs: [table, rows] }) => {
      const [height, ...rest] = table!.shape;
      const count = sizeOf(rows!.shape);
      const flat = reshape(rows!, [count]);
      const values = reshape(grad, [count, sizeOf(rest)]);
      const summed =
        height! <= SMALL_TABLE
          ? gemm(oneHot(flat, height!, grad.dtype), values, { transA: true, exact: true })
          : scatterRows(values, flat, height!);
      return reshape(summed, table!.shape);
    }),
  },
  // ScatterElements, never ScatterND: the latter loses additions to the same row on the CPU with several threads
  scatterRows: {
    infer: ([values, rows], { rows: height }) => {
      indices(rows);
      return [{ dtype: values!.dtype, shape: [height, values!.shape[1]!] }];
    },
    emit: ({ inputs: [values, rows], outputs: [y], to }) => {
      const zeros = to.constant(values!.dtype, [], [0]);
      const table = to.node('Expand', [zeros, integers(to, y!.shape)]);
      const column = to.node('Unsqueeze', [rows!.name, integers(to, [-1])]);
      const places = to.node('Expand', [column, integers(to, values!.shape)]);
      to.node('ScatterElements', [table, places, values!.name], {
        attributes: { axis: { int: 0 }, reduction: { text: 'add' } },
        outputs: [y!.name],
      });
    },
    derive: 'only used as a derivative',
  },
  pick: {
    infer: ([a, places]) => {
      if (a!.shape.length !== 2 || indices(places).shape.join() !== String(a!.shape[0])) {
        throw new TypeError(`pick takes a matrix and one index per row`);
      }
      return [{ dtype: a!.dtype, shape: [a!.shape[0]!] }];
    },
    emit: ({ inputs: [a, places], outputs: [y], to }) => {
      const axes = integers(to, [1]);
      const column = to.node('Unsqueeze', [places!.name, axes]);
      const gathered = to.node('GatherElements', [a!.name, column], {
        attributes: { axis: { int: 1 } },
      });
      to.node('Squeeze', [gathered, axes], { outputs: [y!.name] });
    },
    derive: each(({ grad, inputs: [a, places] }) =>
      mul(reshape(grad, [a!.shape[0]!, 1]), oneHot(places!, a!.shape[1]!, a!.dtype)),
    ),
  },
  oneHot: {
    infer: ([rows], { depth, to }) => {
      if (!isFloat(to)) throw new TypeError(`one-hot rows must be floats, not ${to}`);
      return [{ dtype: to, shape: [...indices(rows).shape, depth] }];
    },
    emit: emitOneHot,
    derive: 'an index is an integer and has no derivative',
  },
} satisfies OpRules;
