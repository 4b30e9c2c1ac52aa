/** Ops that move elements without computing: reshape, transpose, expand, concat, split, slice, pad, after. */

import { type DType, ELEMENT_TYPE } from '../../onnx.ts';
import {
  broadcast,
  type Emission,
  type Emitter,
  each,
  integers,
  isFloat,
  type NamedValue,
  type OpAttributes,
  type OpRules,
  sameShape,
  sizeOf,
  type ValueType,
  withDim,
} from '../rule.ts';
import { concat, filled, pad, reshape, slice, split, sumTo, transpose } from '../verbs.ts';

/** Returns an emit function for a node whose last input is the target shape. */
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

/**
 * Emits a value that depends on another one without using its elements; shape and elements stay. Nothing is copied,
 * except bytes on WebGPU.
 */
export function emitAfter(to: Emitter, a: NamedValue, other: string, output?: string): string {
  const none = to.node('Shape', [other], { attributes: { start: { int: 0 }, end: { int: 0 } } });
  const isExpanded = to.target === 'webgpu' && isByte(a.dtype);
  const waited = to.node(isExpanded ? 'Expand' : 'Squeeze', [a.name, none]);
  const known = integers(to, a.shape);
  return to.node('Reshape', [waited, known], output === undefined ? {} : { outputs: [output] });
}

const isByte = (dtype: DType): boolean => dtype === 'u8' || dtype === 'i8';

interface Cut {
  readonly axis: number;
  readonly start: number;
  readonly end: number;
}

/** Slices a range of a value along an axis. WebGPU slices floats only; other types are gathered element by element. */
export function emitCut(
  to: Emitter,
  { name, dtype }: NamedValue,
  { axis, start, end }: Cut,
  output?: string,
): string {
  const options = output === undefined ? {} : { outputs: [output] };
  if (to.target !== 'webgpu' || isReal(dtype)) {
    const bounds = [start, end, axis].map((bound) => integers(to, [bound]));
    return to.node('Slice', [name, ...bounds], options);
  }
  const positions = Array.from({ length: end - start }, (_, i) => start + i);
  const picked = to.constant('i32', [positions.length], positions);
  return to.node('Gather', [name, picked], { attributes: { axis: { int: axis } }, ...options });
}

const isReal = (dtype: DType): boolean => isFloat(dtype) || dtype === 'f16';

/** Maximum pieces joined at once: a WebGPU shader has at least 8 buffers, one of them for the result. */
const MOST_PIECES = 7;

/** Concatenates values along an axis; on WebGPU a few at a time. Returns the name of the result. */
export function emitJoin(
  to: Emitter,
  pieces: readonly string[],
  { axis, dtype }: { readonly axis: number; readonly dtype: DType },
  output?: string,
): string {
  const attributes = { axis: { int: axis } };
  const named = output === undefined ? {} : { outputs: [output] };
  if (to.target !== 'webgpu') return to.node('Concat', pieces, { attributes, ...named });
  const isBool = dtype === 'bool';
  const cast = (
    name: string,
    type: DType,
    options: { readonly outputs?: readonly string[] } = {},
  ) => to.node('Cast', [name], { attributes: { to: { int: ELEMENT_TYPE[type] } }, ...options });
  let left = isBool ? pieces.map((name) => cast(name, 'i32')) : pieces;
  while (left.length > MOST_PIECES) {
    left = chunks(left, MOST_PIECES).map((part) =>
      part.length === 1 ? part[0]! : to.node('Concat', part, { attributes }),
    );
  }
  if (!isBool) return to.node('Concat', left, { attributes, ...named });
  return cast(to.node('Concat', left, { attributes }), 'bool', named);
}

const chunks = <T>(list: readonly T[], size: number): readonly (readonly T[])[] =>
  Array.from({ length: Math.ceil(list.length / size) }, (_, i) =>
    list.slice(i * size, (i + 1) * size),
  );

function emitSplit(e: Emission<OpAttributes['split']>): void {
  const { attributes, outputs, to } = e;
  const { axis, sizes } = attributes;
  const a = e.inputs[0]!;
  if (to.target !== 'webgpu' || sizes.length <= MOST_PIECES) {
    to.node('Split', [a.name, integers(to, sizes)], {
      attributes: { axis: { int: axis } },
      outputs: outputs.map(({ name }) => name),
    });
    return;
  }
  let start = 0;
  sizes.forEach((size, i) => {
    if (e.uses(i)) emitCut(to, a, { axis, start, end: start + size }, outputs[i]!.name);
    start += size;
  });
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
        throw new TypeError(`[${order}] is not a permutation of the axes of [${a!.shape}]`);
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
        throw new TypeError(`[${a!.shape}] cannot be expanded to [${shape}]`);
      }
      return [{ dtype: a!.dtype, shape }];
    },
    emit: shaped('Expand'),
    derive: each(({ grad, inputs: [a] }) => sumTo(grad, a!.shape)),
  },
  concat: {
    infer: (parts, { axis }) => inferConcat(parts, axis),
    emit: ({ inputs, outputs: [y], attributes: { axis }, to }) => {
      const names = inputs.map(({ name }) => name);
      emitJoin(to, names, { axis, dtype: y!.dtype }, y!.name);
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
    emit: emitSplit,
    derive: ({ grads, inputs: [a], outputs, attributes: { axis } }) => {
      const [first, ...rest] = outputs.map((piece, i) => grads[i] ?? filled(a!, piece.shape, 0));
      return [concat([first!, ...rest], axis)];
    },
  },
  slice: {
    infer: ([a], { axis, start, end }) => {
      if (start < 0 || end > a!.shape[axis]! || start >= end) {
        throw new TypeError(`${start}..${end} is not a range of axis ${axis} of [${a!.shape}]`);
      }
      return [{ dtype: a!.dtype, shape: withDim(a!.shape, axis, end - start) }];
    },
    emit: ({ inputs: [a], outputs: [y], attributes, to }) => {
      emitCut(to, a!, attributes, y!.name);
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
        throw new TypeError('after takes values with at least one axis');
      }
      return [a!];
    },
    emit: ({ inputs: [a, other], outputs: [y], to }) => {
      emitAfter(to, a!, other!.name, y!.name);
    },
    derive: each(({ grad }) => grad),
  },
} satisfies OpRules;
