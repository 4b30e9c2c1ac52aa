/** Matrix products. */

import type { Shape } from '../../onnx.ts';
import {
  broadcast,
  type Emission,
  each,
  isFloat,
  type OpAttributes,
  type OpRules,
  type ValueType,
} from '../rule.ts';
import { gemm, matmul, mul, sumTo, transpose } from '../verbs.ts';

/** Returns rows and columns of a matrix, after an optional transposition. */
function sides(shape: Shape, transposed: boolean): readonly [rows: number, columns: number] {
  if (shape.length < 2) throw new TypeError(`[${shape}] is not a matrix`);
  const rows = shape[shape.length - 2]!;
  const columns = shape[shape.length - 1]!;
  return transposed ? [columns, rows] : [rows, columns];
}

function product(
  a: ValueType | undefined,
  b: ValueType | undefined,
  { transA, transB }: { readonly transA: boolean; readonly transB: boolean },
): readonly [rows: number, columns: number] {
  if (!a || !b || a.dtype !== b.dtype || !isFloat(a.dtype)) {
    throw new TypeError(`a product takes two float operands of one type`);
  }
  const [rows, inner] = sides(a.shape, transA);
  const [other, columns] = sides(b.shape, transB);
  if (inner !== other) {
    throw new TypeError(
      `[${a.shape}] and [${b.shape}] cannot be multiplied: ${inner} is not ${other}`,
    );
  }
  return [rows, columns];
}

/** Emits MatMul, Transpose and Mul, for f64 and for backends without the fused operator. */
function emitPlainMatmul({
  inputs: [a, b],
  outputs: [y],
  attributes: { transA, transB, alpha },
  to,
}: Emission<OpAttributes['matmul']>): void {
  const transposed = (name: string, rank: number) => {
    const ints = [...Array(rank - 2).keys(), rank - 1, rank - 2];
    return to.node('Transpose', [name], { attributes: { perm: { ints } } });
  };
  const left = transA ? transposed(a!.name, a!.shape.length) : a!.name;
  const right = transB ? transposed(b!.name, b!.shape.length) : b!.name;
  const outputs = [y!.name];
  if (alpha === 1) to.node('MatMul', [left, right], { outputs });
  else {
    const scale = to.constant(y!.dtype, [], [alpha]);
    to.node('Mul', [to.node('MatMul', [left, right]), scale], { outputs });
  }
}

function emitMatmul(e: Emission<OpAttributes['matmul']>): void {
  const { transA, transB, alpha } = e.attributes;
  const plain = !transA && !transB && alpha === 1;
  if (plain || e.to.target === 'webgpu' || e.outputs[0]!.dtype !== 'f32') {
    emitPlainMatmul(e);
    return;
  }
  e.to.node('FusedMatMul', [e.inputs[0]!.name, e.inputs[1]!.name], {
    domain: 'com.microsoft',
    attributes: {
      transA: { int: Number(transA) },
      transB: { int: Number(transB) },
      alpha: { float: alpha },
    },
    outputs: [e.outputs[0]!.name],
  });
}

export const matrix = {
  gemm: {
    infer: ([a, b, c], attributes) => {
      const shape = product(a, b, attributes);
      if (a!.shape.length !== 2 || b!.shape.length !== 2) {
        throw new TypeError(`gemm takes matrices, not [${a!.shape}] and [${b!.shape}]`);
      }
      if (c && broadcast(c.shape, shape).join() !== shape.join()) {
        throw new TypeError(`gemm cannot add [${c.shape}] to [${shape}]`);
      }
      return [{ dtype: a!.dtype, shape }];
    },
    emit: ({ inputs, outputs: [y], attributes, to }) => {
      const { transA, transB, alpha, beta, exact } = attributes;
      to.node(
        'Gemm',
        inputs.map(({ name }) => name),
        {
          attributes: {
            transA: { int: Number(transA) },
            transB: { int: Number(transB) },
            alpha: { float: alpha },
            beta: { float: beta },
          },
          outputs: [y!.name],
          exact,
        },
      );
    },
    derive: each(
      ({ grad, inputs: [, b], attributes: { transA, transB, alpha } }) =>
        transA
          ? gemm(b!, grad, { transA: transB, transB: true, alpha })
          : gemm(grad, b!, { transB: !transB, alpha }),
      ({ grad, inputs: [a, b], attributes: { transA, transB, alpha } }) => {
        const [height, width] = sides(b!.shape, transB);
        // the narrow side last: onnxruntime then packs the wide one only once
        const transposed = gemm(grad, a!, { transA: true, transB: transA, alpha });
        if (transB) return transposed;
        return width > height ? transpose(transposed) : gemm(a!, grad, { transA: !transA, alpha });
      },
      ({ grad, inputs: [, , c], attributes: { beta } }) => {
        const summed = sumTo(grad, c!.shape);
        return beta === 1 ? summed : mul(summed, beta);
      },
    ),
  },
  matmul: {
    infer: ([a, b], attributes) => {
      const shape = product(a, b, attributes);
      const stack = broadcast(a!.shape.slice(0, -2), b!.shape.slice(0, -2));
      return [{ dtype: a!.dtype, shape: [...stack, ...shape] }];
    },
    emit: emitMatmul,
    derive: each(
      ({ grad, inputs: [a, b], attributes: { transA, transB, alpha } }) =>
        sumTo(
          transA
            ? matmul(b!, grad, { transA: transB, transB: true, alpha })
            : matmul(grad, b!, { transB: !transB, alpha }),
          a!.shape,
        ),
      ({ grad, inputs: [a, b], attributes: { transA, transB, alpha } }) =>
        sumTo(
          transB
            ? matmul(grad, a!, { transA: true, transB: transA, alpha })
            : matmul(a!, grad, { transA: !transA, alpha }),
          b!.shape,
        ),
    ),
  },
} satisfies OpRules;
