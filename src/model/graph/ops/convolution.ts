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
  const [results, width, ...kernel] = shape as [number, number, ...number[]];
  const rest = grad.shape.slice(2).map((_, i) => i + 2);
  const pieces = patches(x, { ...window, kernel }); // (g, N L, K C/g)
  const rows = reshape(transpose(grad, [1, 0, ...rest]), [group, results / group, -1]);
  const summed = reshape(matmul(rows, pieces), [results, sizeOf(kernel), width]);
  return reshape(transpose(summed, [0, 2, 1]), shape);
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

/** Returns every position in a grid of these sizes, in rows. */
const positionsIn = (sizes: Shape): readonly Shape[] =>
  Array.from({ length: sizeOf(sizes) }, (_, at) =>
    sizes.map((size, i) => Math.floor(at / sizeOf(sizes.slice(i + 1))) % size),
  );

/** Returns where a window at a position reads with an element of its kernel, along one axis; -1 for nowhere. */
type Reach = (position: number, element: number, axis: number) => number;

const forwards =
  ({ strides, begin, dilations }: SlidingWindow): Reach =>
  (position, element, axis) =>
    position * strides[axis]! + element * dilations[axis]! - begin[axis]!;

/** Returns what a transposed convolution reads. */
const backwards =
  ({ strides, begin, dilations }: SlidingWindow): Reach =>
  (position, element, axis) => {
    const at = (position + begin[axis]! - element * dilations[axis]!) / strides[axis]!;
    return Number.isInteger(at) ? at : -1;
  };

/** Returns which element of a plane a window reads, or -1 outside of it. */
function placeIn(spatial: Shape, position: Shape, element: Shape, reach: Reach): number {
  const at = position.map((p, axis) => reach(p, element[axis]!, axis));
  const isInside = at.every((i, axis) => i >= 0 && i < spatial[axis]!);
  return isInside ? at.reduce((sum, i, axis) => sum * spatial[axis]! + i, 0) : -1;
}

/** Emits the rows (N, L K, C) under a window, or zeros outside of x (N, C, ...). */
function emitRows(
  to: Emitter,
  { name, dtype, shape: [batch, channels, ...spatial] }: NamedValue,
  [sizes, kernel]: readonly [sizes: Shape, kernel: Shape],
  reach: Reach,
): string {
  const outside = sizeOf(spatial);
  const elements = positionsIn(kernel);
  const picked = positionsIn(sizes).flatMap((position) =>
    elements.map((element) => {
      const place = placeIn(spatial, position, element, reach);
      return place < 0 ? outside : place;
    }),
  );
  const planes = to.node('Reshape', [name, integers(to, [batch!, channels!, outside])]);
  const rows = to.node('Transpose', [planes], SWAP_LAST);
  const isSame = picked.length === outside && picked.every((at, i) => at === i);
  if (isSame) return rows;
  const zeros = to.constant(dtype, [batch!, 1, channels!], new Float32Array(batch! * channels!));
  const padded = picked.includes(outside) ? emitJoin(to, [rows, zeros], { axis: 1, dtype }) : rows;
  return to.node('Gather', [padded, to.constant('i32', [picked.length], picked)], {
    attributes: { axis: { int: 1 } },
  });
}

const SWAP_LAST = { attributes: { perm: { ints: [0, 2, 1] } } };

/**
 * Emits a convolution, or its transpose, as one product of the rows under its window (N L, K C) and the weights. That
 * is faster than the convolutions of onnxruntime, which make a product for each sample. Weights are (M, C, K), and
 * (C, M, K) for the transpose.
 */
function emitProduct(
  { inputs: [x, w, bias], outputs: [y], to }: Emission<unknown>,
  isTransposed: boolean,
  reach: Reach,
): void {
  const [batch, results, ...sizes] = y!.shape as [number, number, ...number[]];
  const [first, second, ...kernel] = w!.shape as [number, number, ...number[]];
  const [places, count] = [sizeOf(sizes), sizeOf(kernel)];
  const width = count * x!.shape[1]!;
  const as = (name: string, ...shape: number[]) => to.node('Reshape', [name, integers(to, shape)]);
  const rows = as(emitRows(to, x!, [sizes, kernel], reach), batch * places, width);
  const perm = { ints: isTransposed ? [2, 0, 1] : [0, 2, 1] };
  const weights = to.node('Transpose', [as(w!.name, first, second, count)], {
    attributes: { perm },
  });
  const matrix = isTransposed ? as(weights, width, results) : as(weights, results, width);
  const product = to.node('Gemm', bias ? [rows, matrix, bias.name] : [rows, matrix], {
    attributes: { transB: { int: Number(!isTransposed) } },
  });
  const planes = to.node('Transpose', [as(product, batch, places, results)], SWAP_LAST);
  to.node('Reshape', [planes, integers(to, y!.shape)], { outputs: [y!.name] });
}

/** Reports whether a convolution is emitted as one product. */
const isProduct = ({ to, attributes: { group } }: Emission<{ group: number }>): boolean =>
  to.target === 'cpu' && group === 1;

/** Emits the position of the first maximum of each window in the flat input: MaxPool on WebGPU has only the values. */
function emitPositions(e: Emission<OpAttributes['maxPool']>): void {
  const { inputs, outputs, attributes, to } = e;
  const [x, y, at] = [inputs[0]!, outputs[0]!, outputs[1]!];
  const { kernel } = attributes;
  const [batch = 0, channels = 0, ...spatial] = x.shape;
  const sizes = y.shape.slice(2);
  const [plane, count] = [sizeOf(spatial), sizeOf(sizes)];
  const elements = positionsIn(kernel);
  const reach = forwards(attributes);
  const rows = emitRows(to, x, [sizes, kernel], reach);
  const split = integers(to, [batch, count, elements.length, channels]);
  const columns = to.node('Transpose', [to.node('Reshape', [rows, split])], {
    attributes: { perm: { ints: [3, 2, 0, 1] } },
  });
  const swap = { attributes: { perm: { ints: [1, 0, 2] } } };
  const flat = to.node('Reshape', [y.name, integers(to, [batch, channels, count])]);
  const maxima = to.node('Transpose', [flat], swap);
  const tops = to.node('Reshape', [maxima, integers(to, [channels, 1, batch, count])]);
  // negated positions in one plane: their maximum is the first position; padding gets the last one
  const last = 1 - plane;
  const inPlane = elements.flatMap((element) =>
    positionsIn(sizes).map((position) => {
      const place = placeIn(spatial, position, element, reach);
      return place < 0 ? last : -place;
    }),
  );
  const candidates = to.constant('i32', [1, elements.length, 1, count], inPlane);
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
      if (isProduct(e)) return emitProduct(e, false, forwards(window));
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
      // with larger strides most rows of the product are zeros; onnxruntime transposes no convolution in f64
      const isDense =
        window.strides.every((stride) => stride === 1) || e.inputs[0]!.dtype === 'f64';
      if (isDense && isProduct(e)) return emitProduct(e, true, backwards(window));
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
    infer: ([x], { group, kernel, ...window }) => {
      const [batch = 0, channels = 0, ...spatial] = x?.shape ?? [];
      const sizes = windowed(spatial, kernel, window);
      assertWindow(x, kernel, sizes);
      const width = (channels / group) * sizeOf(kernel);
      return [{ dtype: x!.dtype, shape: [group, batch * sizeOf(sizes), width] }];
    },
    emit: ({ inputs: [x], outputs: [y], attributes: { group, kernel, ...window }, to }) => {
      const [, channels, ...spatial] = x!.shape as [number, number, ...number[]];
      const sizes = windowed(spatial, kernel, window);
      const rows = emitRows(to, x!, [sizes, kernel], forwards(window));
      const shape = integers(to, y!.shape);
      const outputs = [y!.name];
      if (group === 1) return void to.node('Reshape', [rows, shape], { outputs });
      const split = integers(to, [y!.shape[1]!, sizeOf(kernel), group, channels / group]);
      const groups = to.node('Transpose', [to.node('Reshape', [rows, split])], {
        attributes: { perm: { ints: [2, 0, 1, 3] } },
      });
      to.node('Reshape', [groups, shape], { outputs });
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
