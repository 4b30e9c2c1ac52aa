/** Indexing ops: gather, scatter, pick and one-hot. Indices are i32 and must be in range. */
import { ELEMENT_TYPE } from '../../onnx.ts';
import { type Emission, each, integers, type OpRule } from '../rule.ts';
import type { OpAttributes } from '../signatures.ts';
import { isFloat, sizeOf, type ValueType } from '../value.ts';
import { gemm, mul, oneHot, reshape, scatterRows } from '../verbs.ts';

type Indexing = 'gather' | 'scatterRows' | 'pick' | 'oneHot';

/** Up to this many rows a table's gradient is one product with one-hot rows; beyond, rows are added one by one. */
const SMALL_TABLE = 1024;

function indices(value: ValueType | undefined): ValueType {
  if (value?.dtype !== 'i32' && value?.dtype !== 'i64') {
    throw new TypeError(`indices are whole numbers, not ${value?.dtype}`);
  }
  return value;
}

/** Compares with 0, 1, 2, ...: as fast as the OneHot operator and known to every backend. */
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

export const indexing = {
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
      const found = to.node('GatherElements', [a!.name, column], {
        attributes: { axis: { int: 1 } },
      });
      to.node('Squeeze', [found, axes], { outputs: [y!.name] });
    },
    derive: each(({ grad, inputs: [a, places] }) =>
      mul(reshape(grad, [a!.shape[0]!, 1]), oneHot(places!, a!.shape[1]!, a!.dtype)),
    ),
  },
  oneHot: {
    infer: ([rows], { depth, to }) => {
      if (!isFloat(to)) throw new TypeError(`one-hot rows are real numbers, not ${to}`);
      return [{ dtype: to, shape: [...indices(rows).shape, depth] }];
    },
    emit: emitOneHot,
    derive: 'an index is a whole number',
  },
} satisfies { [K in Indexing]: OpRule<OpAttributes[K]> };
