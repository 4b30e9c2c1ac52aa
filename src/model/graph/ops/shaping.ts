/** Ops that move elements without computing: reshape, transpose, expand, concat, split, slice, pad, after. */
import {
  type Emission,
  type Emitter,
  each,
  integers,
  type NamedValue,
  type OpRule,
} from '../rule.ts';
import type { OpAttributes } from '../signatures.ts';
import { broadcast, sameShape, sizeOf, type ValueType, withDim } from '../value.ts';
import { concat, filled, pad, reshape, slice, split, sumTo, transpose } from '../verbs.ts';

type Shaping = 'reshape' | 'transpose' | 'expand' | 'concat' | 'split' | 'slice' | 'pad' | 'after';

/** A node whose last input is the target shape. */
const shaped =
  (type: string) =>
  ({ inputs: [a], outputs: [y], attributes, to }: Emission<{ shape: readonly number[] }>) => {
    to.node(type, [a!.name, integers(to, attributes.shape)], { outputs: [y!.name] });
  };

function inferConcat(parts: readonly ValueType[], axis: number): readonly ValueType[] {
  const [first] = parts;
  for (const part of parts) {
    const alike = sameShape(withDim(part.shape, axis, 0), withDim(first!.shape, axis, 0));
    if (!alike || part.dtype !== first!.dtype) {
      throw new TypeError(`[${part.shape}] does not continue [${first!.shape}] along axis ${axis}`);
    }
  }
  const dim = parts.reduce((sum, part) => sum + part.shape[axis]!, 0);
  return [{ dtype: first!.dtype, shape: withDim(first!.shape, axis, dim) }];
}

/** Two reshapes, which copy nothing: the first to a shape that looks at the other value, the second to the one known here. */
export function emitAfter(
  to: Emitter,
  { name, shape }: Pick<NamedValue, 'name' | 'shape'>,
  other: string,
  output?: string,
): string {
  const [from, one] = [integers(to, [0]), integers(to, [1])];
  const dim = to.node('Slice', [to.node('Shape', [other]), from, one, from]);
  const known = integers(to, shape);
  const late = to.node('Add', [known, to.node('Mul', [dim, from])]);
  const waited = to.node('Reshape', [name, late]);
  return to.node('Reshape', [waited, known], output === undefined ? {} : { outputs: [output] });
}

export const shaping = {
  reshape: {
    infer: ([a], { shape }) => {
      if (sizeOf(a!.shape) !== sizeOf(shape)) {
        throw new TypeError(`[${a!.shape}] does not fit into [${shape}]`);
      }
      return [{ dtype: a!.dtype, shape }];
    },
    emit: shaped('Reshape'),
    derive: each(({ grad, inputs: [a] }) => reshape(grad, a!.shape)),
  },
  transpose: {
    infer: ([a], { order }) => {
      if (
        order.length !== a!.shape.length ||
        ![...order].sort((x, y) => x - y).every((axis, i) => axis === i)
      ) {
        throw new TypeError(`[${order}] is no order of the axes of [${a!.shape}]`);
      }
      return [{ dtype: a!.dtype, shape: order.map((axis) => a!.shape[axis]!) }];
    },
    emit: ({ inputs: [a], outputs: [y], attributes: { order }, to }) => {
      to.node('Transpose', [a!.name], {
        attributes: { perm: { ints: order } },
        outputs: [y!.name],
      });
    },
    derive: each(({ grad, attributes: { order } }) =>
      transpose(
        grad,
        order.map((_, axis) => order.indexOf(axis)),
      ),
    ),
  },
  expand: {
    infer: ([a], { shape }) => {
      if (!sameShape(broadcast(a!.shape, shape), shape)) {
        throw new TypeError(`[${a!.shape}] does not expand to [${shape}]`);
      }
      return [{ dtype: a!.dtype, shape }];
    },
    emit: shaped('Expand'),
    derive: each(({ grad, inputs: [a] }) => sumTo(grad, a!.shape)),
  },
  concat: {
    infer: (parts, { axis }) => inferConcat(parts, axis),
    emit: ({ inputs, outputs: [y], attributes: { axis }, to }) => {
      to.node(
        'Concat',
        inputs.map(({ name }) => name),
        { attributes: { axis: { int: axis } }, outputs: [y!.name] },
      );
    },
    derive: ({ grad, inputs, attributes: { axis } }) =>
      split(
        grad,
        axis,
        inputs.map(({ shape }) => shape[axis]!),
      ),
  },
  split: {
    infer: ([a], { axis, sizes }) => {
      if (sizes.reduce((sum, size) => sum + size, 0) !== a!.shape[axis]) {
        throw new TypeError(`pieces of ${sizes} do not add up to axis ${axis} of [${a!.shape}]`);
      }
      return sizes.map((size) => ({ dtype: a!.dtype, shape: withDim(a!.shape, axis, size) }));
    },
    emit: ({ inputs: [a], outputs, attributes: { axis, sizes }, to }) => {
      to.node('Split', [a!.name, integers(to, sizes)], {
        attributes: { axis: { int: axis } },
        outputs: outputs.map(({ name }) => name),
      });
    },
    derive: ({ grads, inputs: [a], outputs, attributes: { axis } }) => {
      const [first, ...rest] = outputs.map((piece, i) => grads[i] ?? filled(a!, piece.shape, 0));
      return [concat([first!, ...rest], axis)];
    },
  },
  slice: {
    infer: ([a], { axis, start, end }) => {
      if (start < 0 || end > a!.shape[axis]! || start >= end) {
        throw new TypeError(`${start}..${end} is no part of axis ${axis} of [${a!.shape}]`);
      }
      return [{ dtype: a!.dtype, shape: withDim(a!.shape, axis, end - start) }];
    },
    emit: ({ inputs: [a], outputs: [y], attributes: { axis, start, end }, to }) => {
      const bounds = [start, end, axis].map((bound) => integers(to, [bound]));
      to.node('Slice', [a!.name, ...bounds], { outputs: [y!.name] });
    },
    derive: each(({ grad, inputs: [a], attributes: { axis, start, end } }) =>
      pad(grad, axis, start, a!.shape[axis]! - end),
    ),
  },
  pad: {
    infer: ([a], { axis, before, after }) => [
      { dtype: a!.dtype, shape: withDim(a!.shape, axis, a!.shape[axis]! + before + after) },
    ],
    emit: ({ inputs: [a], outputs: [y], attributes: { axis, before, after }, to }) => {
      const rank = a!.shape.length;
      const amounts = new Array<number>(2 * rank).fill(0);
      amounts[axis] = before;
      amounts[rank + axis] = after;
      to.node('Pad', [a!.name, integers(to, amounts)], { outputs: [y!.name] });
    },
    derive: each(({ grad, inputs: [a], attributes: { axis, before } }) =>
      slice(grad, axis, before, before + a!.shape[axis]!),
    ),
  },
  after: {
    infer: ([a, other]) => {
      if (a!.shape.length === 0 || other!.shape.length === 0) {
        throw new TypeError('scalars cannot wait or be waited for');
      }
      return [a!];
    },
    emit: ({ inputs: [a, other], outputs: [y], to }) => {
      emitAfter(to, a!, other!.name, y!.name);
    },
    derive: each(({ grad }) => grad),
  },
} satisfies { [K in Shaping]: OpRule<OpAttributes[K]> };
