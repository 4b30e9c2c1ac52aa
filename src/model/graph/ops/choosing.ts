/** Comparison ops, `where` and `cast`. */
import { ELEMENT_TYPE } from '../../onnx.ts';
import { direct, each, type OpRule } from '../rule.ts';
import type { OpAttributes, Plain } from '../signatures.ts';
import { broadcast, type ValueType } from '../value.ts';
import { cast, constantLike, sumTo, where } from '../verbs.ts';

type Choosing = 'equal' | 'less' | 'greater' | 'not' | 'where' | 'cast';

const compared = ([a, b]: readonly ValueType[]): readonly ValueType[] => {
  if (!a || !b || a.dtype !== b.dtype) throw new TypeError('only equal types compare');
  return [{ dtype: 'bool', shape: broadcast(a.shape, b.shape) }];
};

const comparison = (type: string): OpRule<Plain> => ({
  infer: compared,
  emit: direct(type),
  derive: 'true and false have no slope',
});

export const choosing = {
  equal: comparison('Equal'),
  less: comparison('Less'),
  greater: comparison('Greater'),
  not: {
    infer: ([a]) => [a!],
    emit: direct('Not'),
    derive: 'true and false have no slope',
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
} satisfies { [K in Choosing]: OpRule<OpAttributes[K]> };
