/** Tensors whose elements are known when a graph is built: initializers, shapes, and what is computed from them. */
import type { Recorder, Value } from '../graph/rule.ts';

/** Element types as far as a graph tells them apart: all floats are computed in the type of the weights. */
export type TensorKind = 'float' | 'int' | 'bool';

export interface Tensor {
  readonly kind: TensorKind;
  readonly shape: readonly number[];
  readonly elements: ArrayLike<number>;
}

/** Maximum elements of one tensor, 8 GiB of 32-bit values. */
export const MOST_ELEMENTS = 2 ** 31;

/** A value of the graph, or a tensor that is known already. */
export type GraphOperand = Value | Tensor;

export const isKnown = (operand: GraphOperand): operand is Tensor => 'elements' in operand;

export const ints = (elements: readonly number[], shape = [elements.length]): Tensor => ({
  kind: 'int',
  shape,
  elements,
});

/** Returns the kind of an operand's elements. */
export function kindOfOperand(operand: GraphOperand): TensorKind {
  if (isKnown(operand)) return operand.kind;
  if (operand.dtype === 'bool') return 'bool';
  return operand.dtype === 'f32' || operand.dtype === 'f64' ? 'float' : 'int';
}

/** Returns a value with the elements of a known tensor. */
export function toValue(graph: Recorder, operand: GraphOperand, float: 'f32' | 'f64'): Value {
  if (!isKnown(operand)) return operand;
  const { kind, shape, elements } = operand;
  const dtype = kind === 'float' ? float : kind === 'int' ? 'i64' : 'bool';
  return graph.constant({ dtype, shape }, elements);
}
