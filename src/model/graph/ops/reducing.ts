/** Reductions over axes: sum, mean, max, argmax. */
import { each, integers, type OpRule } from '../rule.ts';
import type { OpAttributes, Reduction } from '../signatures.ts';
import { sizeOf, type Value, type ValueType, withDim } from '../value.ts';
import { cast, div, equal, expand, mul, reduceSum, reshape } from '../verbs.ts';

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

/** A value of the reduced shape, repeated over the axes that were folded. */
const spread = (value: Value, like: Value, axes: readonly number[]): Value =>
  expand(reshape(value, kept(like.shape, axes)), like.shape);

export const reducing = {
  reduceSum: {
    infer: reduced,
    emit: emit('ReduceSum'),
    derive: each(({ grad, inputs: [a], attributes: { axes } }) => spread(grad, a!, axes)),
  },
  reduceMean: {
    infer: reduced,
    emit: emit('ReduceMean'),
    derive: each(({ grad, inputs: [a], outputs: [y], attributes: { axes } }) =>
      spread(div(grad, sizeOf(a!.shape) / sizeOf(y!.shape)), a!, axes),
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
    derive: 'a position is a whole number',
  },
} satisfies {
  [K in 'reduceSum' | 'reduceMean' | 'reduceMax' | 'argMax']: OpRule<OpAttributes[K]>;
};
