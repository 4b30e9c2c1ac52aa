/**
 * Convolution of (N, C, ...) with any number of spatial axes, its transpose, and max pooling. The gradient by the input
 * of a convolution is its transpose; that by the weights is one matrix product with the patches of the input.
 */
import type { OnnxAttribute, Shape } from '../../onnx.ts';
import {
  type Derivation,
  type Emission,
  integers,
  isFloat,
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

/** Slices the padded input once per element of the kernel. */
function emitPatches({ inputs, outputs, attributes, to }: Emission<OpAttributes['patches']>): void {
  const [x, y] = [inputs[0]!, outputs[0]!];
  const { kernel, strides, begin, end, dilations } = attributes;
  const [batch, channels, ...spatial] = x.shape;
  const sizes = windowed(spatial, kernel, attributes);
  const axes = spatial.map((_, i) => i + 2);
  const isPadded = [...begin, ...end].some((amount) => amount > 0);
  const amounts = integers(to, [0, 0, ...begin, 0, 0, ...end]);
  const padded = isPadded ? to.node('Pad', [x.name, amounts]) : x.name;
  const channelsFirst = to.node('Transpose', [padded], {
    attributes: { perm: { ints: [1, 0, ...axes] } },
  });
  const steps = integers(to, strides);
  const along = integers(to, axes);
  const rows = integers(to, [channels!, 1, batch! * sizeOf(sizes)]);
  const pieces = Array.from({ length: sizeOf(kernel) }, (_, at) => {
    const starts = kernel.map(
      (_, i) => (Math.floor(at / sizeOf(kernel.slice(i + 1))) % kernel[i]!) * dilations[i]!,
    );
    const ends = starts.map((start, i) => start + (sizes[i]! - 1) * strides[i]! + 1);
    const bounds = [integers(to, starts), integers(to, ends), along, steps];
    return to.node('Reshape', [to.node('Slice', [channelsFirst, ...bounds]), rows]);
  });
  const joined = to.node('Concat', pieces, { attributes: { axis: { int: 1 } } });
  to.node('Reshape', [joined, integers(to, y.shape)], { outputs: [y.name] });
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
    emit: emitPatches,
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
        { dtype: 'i64', shape },
      ];
    },
    saves: true,
    emit: (e) => {
      const { kernel, ...window } = e.attributes;
      emitWindow('MaxPool', e, { kernel_shape: { ints: kernel }, ...attributesOf(window) });
    },
    derive: ({ grad, inputs: [x], outputs: [, at] }) => {
      const count = sizeOf(grad.shape);
      const flat = scatterRows(reshape(grad, [count, 1]), reshape(at!, [count]), sizeOf(x!.shape));
      return [reshape(flat, x!.shape)];
    },
  },
} satisfies OpRules;
