/**
 * Convolution of (N, C, ...) with any number of spatial axes, its transpose, and max pooling. The gradient by the input
 * of a convolution is its transpose; that by the weights is one matrix product with the patches of the input.
 */
import { ELEMENT_TYPE, type OnnxAttribute, type Shape } from '../../onnx.ts';
import {
  type Derivation,
  type Emission,
  type Emitter,
  integers,
  isFloat,
  type NamedValue,
  type OpAttributes,
  type OpRules,
  type SlidingWindow,
  sizeOf,
  type Value,
  type ValueType,
} from '../rule.ts';
import {
  conv,
  convTranspose,
  matmul,
  patches,
  reduceSum,
  reshape,
  scatterRows,
  transpose,
} from '../verbs.ts';
import { emitJoin } from './shaping.ts';

const attributesOf = ({ strides, begin, end, dilations }: SlidingWindow) => ({
  strides: { ints: strides },
  pads: { ints: [...begin, ...end] },
  dilations: { ints: dilations },
});

/** Returns the spatial sizes after a window has moved over the given ones. */
const windowed = (
  spatial: Shape,
  kernel: Shape,
  { strides, begin, end, dilations }: SlidingWindow,
): Shape =>
  spatial.map((size, i) => {
    const reach = dilations[i]! * (kernel[i]! - 1) + 1;
    return Math.floor((size + begin[i]! + end[i]! - reach) / strides[i]!) + 1;
  });

function assertWindow(x: ValueType | undefined, kernel: Shape, result: Shape): void {
  const isGood = x !== undefined && isFloat(x.dtype) && x.shape.length === kernel.length + 2;
  if (isGood && result.every((size) => Number.isSafeInteger(size) && size > 0)) return;
  throw new TypeError(`a window of [${kernel}] does not fit into [${x?.shape}]`);
}

/** Returns the gradient by the weights (M, C/g, ...) of a convolution of x (N, C, ...) with results like `grad`. */
function byWeights(
  x: Value,
  grad: Value,
  shape: Shape,
  window: SlidingWindow & { group: number },
): Value {
  const { group } = window;
  const [results, width, ...kernel] = shape;
  const [, , ...spatial] = grad.shape;
  const columns = patches(x, { ...window, kernel }); // (C K, N L)
  const count = columns.shape[1]!;
  const rest = spatial.map((_, i) => i + 2);
  const rows = reshape(transpose(grad, [1, 0, ...rest]), [group, results! / group, count]);
  const wide = reshape(columns, [group, width! * sizeOf(kernel), count]);
  return reshape(matmul(rows, wide, { transB: true }), shape);
}

function emitWindow(
  type: string,
  { inputs, outputs, to }: Emission<unknown>,
  attributes: Readonly<Record<string, OnnxAttribute>>,
): void {
  to.node(
    type,
    inputs.map(({ name }) => name),
    { attributes, outputs: outputs.map(({ name }) => name) },
  );
}

const byBias = ({ grad }: Derivation<unknown>): Value =>
  reduceSum(
    grad,
    grad.shape.map((_, i) => i).filter((axis) => axis !== 1),
  );

/** Returns the offset of each element of a kernel along each axis, in rows. */
const offsetsOf = (kernel: Shape, dilations: Shape): readonly Shape[] =>
  Array.from({ length: sizeOf(kernel) }, (_, at) =>
    kernel.map((size, i) => (Math.floor(at / sizeOf(kernel.slice(i + 1))) % size) * dilations[i]!),
  );

/** Emits patches (C, K, N L): slices the input, padded with zeros, once per element of the kernel. */
function emitPatches(
  to: Emitter,
  { name, dtype, shape }: NamedValue,
  attributes: OpAttributes['patches'],
): string {
  const { kernel, strides, begin, end, dilations } = attributes;
  const [batch, channels, ...spatial] = shape;
  const sizes = windowed(spatial, kernel, attributes);
  const axes = spatial.map((_, i) => i + 2);
  const isPadded = [...begin, ...end].some((amount) => amount > 0);
  const amounts = integers(to, [0, 0, ...begin, 0, 0, ...end]);
  const padded = isPadded ? to.node('Pad', [name, amounts]) : name;
  const channelsFirst = to.node('Transpose', [padded], {
    attributes: { perm: { ints: [1, 0, ...axes] } },
  });
  const steps = integers(to, strides);
  const along = integers(to, axes);
  const rows = integers(to, [channels!, 1, batch! * sizeOf(sizes)]);
  const pieces = offsetsOf(kernel, dilations).map((starts) => {
    const ends = starts.map((start, i) => start + (sizes[i]! - 1) * strides[i]! + 1);
    const bounds = [integers(to, starts), integers(to, ends), along, steps];
    return to.node('Reshape', [to.node('Slice', [channelsFirst, ...bounds]), rows]);
  });
  return emitJoin(to, pieces, { axis: 1, dtype });
}

/** Emits the position of the first maximum of each window in the flat input: MaxPool on WebGPU has only the values. */
function emitPositions(e: Emission<OpAttributes['maxPool']>): void {
  const { inputs, outputs, attributes, to } = e;
  const [x, y, at] = [inputs[0]!, outputs[0]!, outputs[1]!];
  const { kernel, strides, begin, dilations } = attributes;
  const [batch = 0, channels = 0, ...spatial] = x.shape;
  const sizes = y.shape.slice(2);
  const [plane, count] = [sizeOf(spatial), sizeOf(sizes)];
  const offsets = offsetsOf(kernel, dilations);
  const shape = [channels, offsets.length, batch, count];
  const columns = to.node('Reshape', [emitPatches(to, x, attributes), integers(to, shape)]);
  const swap = { attributes: { perm: { ints: [1, 0, 2] } } };
  const flat = to.node('Reshape', [y.name, integers(to, [batch, channels, count])]);
  const maxima = to.node('Transpose', [flat], swap);
  const tops = to.node('Reshape', [maxima, integers(to, [channels, 1, batch, count])]);
  // negated positions in one plane: their maximum is the first position; padding gets the last one
  const last = 1 - plane;
  const starts = Array.from({ length: count }, (_, i) =>
    sizes.map((size, axis) => Math.floor(i / sizeOf(sizes.slice(axis + 1))) % size),
  );
  const inPlane = offsets.flatMap((offset) =>
    starts.map((start) => {
      const place = start.map((i, axis) => i * strides[axis]! + offset[axis]! - begin[axis]!);
      const isInside = place.every((i, axis) => i >= 0 && i < spatial[axis]!);
      return isInside ? -place.reduce((sum, i, axis) => sum * spatial[axis]! + i, 0) : last;
    }),
  );
  const candidates = to.constant('i32', [1, offsets.length, 1, count], inPlane);
  const none = to.constant('i32', [], [last]);
  const matches = to.node('Where', [to.node('Equal', [columns, tops]), candidates, none]);
  const first = to.node('ReduceMax', [matches, integers(to, [1])], {
    attributes: { keepdims: { int: 0 } },
  });
  const bases = Array.from({ length: channels * batch }, (_, i) => {
    const [channel, sample] = [Math.floor(i / batch), i % batch];
    return (sample * channels + channel) * plane;
  });
  const base = to.constant('i32', [channels, batch, 1], bases);
  const positions = to.node('Transpose', [to.node('Sub', [base, first])], swap);
  to.node('Reshape', [positions, integers(to, at.shape)], { outputs: [at.name] });
}

function emitMaxPool(e: Emission<OpAttributes['maxPool']>): void {
  const { inputs, outputs, to } = e;
  const { kernel, ...window } = e.attributes;
  const attributes = { kernel_shape: { ints: kernel }, ...attributesOf(window) };
  const [values, at] = [outputs[0]!, outputs[1]!];
  if (!e.uses(1) || to.target === 'webgpu') {
    emitWindow('MaxPool', { ...e, outputs: [values] }, attributes);
    if (e.uses(1)) emitPositions(e);
    return;
  }
  const long = `${at.name}.i64`;
  to.node('MaxPool', [inputs[0]!.name], { attributes, outputs: [values.name, long] });
  to.node('Cast', [long], {
    attributes: { to: { int: ELEMENT_TYPE.i32 } },
    outputs: [at.name],
  });
}

export const convolution = {
  conv: {
    infer: ([x, w], { group, ...window }) => {
      const [results = 0, width = 0, ...kernel] = w?.shape ?? [];
      const [batch, channels, ...spatial] = x?.shape ?? [];
      const sizes = windowed(spatial, kernel, window);
      assertWindow(x, kernel, sizes);
      if (channels !== width * group || results % group !== 0) {
        throw new TypeError(`[${w!.shape}] in ${group} groups does not fit [${x!.shape}]`);
      }
      return [{ dtype: x!.dtype, shape: [batch!, results, ...sizes] }];
    },
    emit: (e) => {
      const { group, ...window } = e.attributes;
      emitWindow('Conv', e, { group: { int: group }, ...attributesOf(window) });
    },
    derive: (d) => {
      const { grad, attributes, inputs, wants } = d;
      const [x, w] = inputs;
      return [
        wants(0) ? convTranspose(grad, w!, { ...attributes, sizes: x!.shape.slice(2) }) : undefined,
        wants(1) ? byWeights(x!, grad, w!.shape, attributes) : undefined,
        wants(2) ? byBias(d) : undefined,
      ];
    },
  },
  convTranspose: {
    infer: ([x, w], { group, sizes }) => {
      const [batch, channels] = x?.shape ?? [];
      const [inputs, width = 0, ...kernel] = w?.shape ?? [];
      assertWindow(x, kernel, sizes);
      if (channels !== inputs) throw new TypeError(`[${w!.shape}] does not fit [${x!.shape}]`);
      return [{ dtype: x!.dtype, shape: [batch!, width * group, ...sizes] }];
    },
    emit: (e) => {
      const { group, sizes, ...window } = e.attributes;
      const [, , ...kernel] = e.inputs[1]!.shape;
      const [, , ...spatial] = e.inputs[0]!.shape;
      const extra = sizes.map((size, i) => {
        const reach = window.dilations[i]! * (kernel[i]! - 1) + 1;
        const full = (spatial[i]! - 1) * window.strides[i]! + reach;
        return size - (full - window.begin[i]! - window.end[i]!);
      });
      emitWindow('ConvTranspose', e, {
        group: { int: group },
        output_padding: { ints: extra },
        ...attributesOf(window),
      });
    },
    derive: (d) => {
      const { grad, attributes, inputs, wants } = d;
      const { sizes: _, ...window } = attributes;
      const [x, w] = inputs;
      return [
        wants(0) ? conv(grad, w!, window) : undefined,
        wants(1) ? byWeights(grad, x!, w!.shape, window) : undefined,
        wants(2) ? byBias(d) : undefined,
      ];
    },
  },
  patches: {
    infer: ([x], attributes) => {
      const { kernel } = attributes;
      const [batch = 0, channels = 0, ...spatial] = x?.shape ?? [];
      const sizes = windowed(spatial, kernel, attributes);
      assertWindow(x, kernel, sizes);
      return [{ dtype: x!.dtype, shape: [channels * sizeOf(kernel), batch * sizeOf(sizes)] }];
    },
    emit: ({ inputs: [x], outputs: [y], attributes, to }) => {
      const columns = emitPatches(to, x!, attributes);
      to.node('Reshape', [columns, integers(to, y!.shape)], { outputs: [y!.name] });
    },
    derive: 'only used as a derivative',
  },
  // the second result has the position of each maximum in the flat input
  maxPool: {
    infer: ([x], attributes) => {
      const { kernel } = attributes;
      const [batch, channels, ...spatial] = x?.shape ?? [];
      const sizes = windowed(spatial, kernel, attributes);
      assertWindow(x, kernel, sizes);
      const shape = [batch!, channels!, ...sizes];
      return [
        { dtype: x!.dtype, shape },
        { dtype: 'i32', shape },
      ];
    },
    saves: true,
    emit: emitMaxPool,
    derive: ({ grad, inputs: [x], outputs: [, at] }) => {
      const count = sizeOf(grad.shape);
      const flat = scatterRows(reshape(grad, [count, 1]), reshape(at!, [count]), sizeOf(x!.shape));
      return [reshape(flat, x!.shape)];
    },
  },
} satisfies OpRules;
