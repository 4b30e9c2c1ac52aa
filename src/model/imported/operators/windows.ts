/** ONNX convolutions, pooling and resizing. */
import type { SlidingWindow, Value } from '../../graph/rule.ts';
import * as ops from '../../graph/verbs.ts';
import {
  axesOf,
  type Call,
  front,
  int,
  intsOf,
  list,
  type Operator,
  type Operators,
  optional,
  refusal,
  textOf,
  value,
  written,
} from '../call.ts';
import { alongAxis } from './elementwise.ts';

/** Returns how the window of a node moves over spatial axes of these sizes. */
function windowOf(
  call: Call,
  spatial: readonly number[],
  kernel: readonly number[],
): SlidingWindow {
  const strides = intsOf(call, 'strides') ?? spatial.map(() => 1);
  const dilations = intsOf(call, 'dilations') ?? spatial.map(() => 1);
  const pads = intsOf(call, 'pads') ?? spatial.flatMap(() => [0, 0]);
  const auto = textOf(call, 'auto_pad', 'NOTSET');
  if (auto !== 'SAME_UPPER' && auto !== 'SAME_LOWER') {
    const [begin, end] = [pads.slice(0, spatial.length), pads.slice(spatial.length)];
    const none = spatial.map(() => 0);
    return auto === 'VALID'
      ? { strides, dilations, begin: none, end: none }
      : { strides, dilations, begin, end };
  }
  const amounts = spatial.map((size, i) => {
    const reach = dilations[i]! * (kernel[i]! - 1) + 1;
    return Math.max(0, (Math.ceil(size / strides[i]!) - 1) * strides[i]! + reach - size);
  });
  const less = amounts.map((amount) => Math.floor(amount / 2));
  const more = amounts.map((amount, i) => amount - less[i]!);
  return auto === 'SAME_UPPER'
    ? { strides, dilations, begin: less, end: more }
    : { strides, dilations, begin: more, end: less };
}

const conv: Operator = (call) => {
  const [x, w] = [value(call, 0), value(call, 1)];
  const window = windowOf(call, x.shape.slice(2), w.shape.slice(2));
  return [ops.conv(x, w, { ...window, group: int(call, 'group', 1) }, optional(call, 2))];
};

const convTranspose: Operator = (call) => {
  const [x, w] = [value(call, 0), value(call, 1)];
  const spatial = x.shape.slice(2);
  const kernel = w.shape.slice(2);
  const window = windowOf(
    { ...call, attributes: { ...call.attributes, auto_pad: 'NOTSET' } },
    spatial,
    kernel,
  );
  if (textOf(call, 'auto_pad', 'NOTSET') !== 'NOTSET' || intsOf(call, 'output_shape')) {
    throw refusal(call, 'has automatic padding', 'export it with the padding as numbers');
  }
  const extra = intsOf(call, 'output_padding') ?? spatial.map(() => 0);
  const { strides, dilations, begin, end } = window;
  const sizes = spatial.map(
    (size, i) =>
      (size - 1) * strides[i]! +
      dilations[i]! * (kernel[i]! - 1) +
      1 -
      begin[i]! -
      end[i]! +
      extra[i]!,
  );
  const how = { ...window, sizes, group: int(call, 'group', 1) };
  return [ops.convTranspose(x, w, how, optional(call, 2))];
};

/** Returns the window of a pool; rounding up adds padding at the end, unless a window would begin in it. */
function poolOf(
  call: Call,
  x: Value,
): SlidingWindow & { readonly kernel: readonly number[]; readonly extra: readonly number[] } {
  const kernel = intsOf(call, 'kernel_shape')!;
  const spatial = x.shape.slice(2);
  const window = windowOf(call, spatial, kernel);
  const extra = spatial.map((size, i) => {
    if (int(call, 'ceil_mode', 0) === 0) return 0;
    const [stride, begin] = [window.strides[i]!, window.begin[i]!];
    const reach = window.dilations[i]! * (kernel[i]! - 1) + 1;
    const reachable = size + begin + window.end[i]! - reach;
    const last = Math.ceil(reachable / stride);
    const count = last * stride >= size + begin ? last : last + 1;
    return Math.max(0, (count - 1) * stride - reachable);
  });
  return { ...window, kernel, extra };
}

const maxPool: Operator = (call) => {
  const x = value(call, 0);
  const { extra, ...window } = poolOf(call, x);
  const end = window.end.map((amount, i) => amount + extra[i]!);
  // onnxruntime requires padding below the size of the kernel
  if (end.every((amount, i) => amount < window.kernel[i]!)) {
    return [ops.maxPool(x, { ...window, end })];
  }
  throw refusal(call, 'pads more than its kernel covers', 'export it with less padding');
};

/** The mean of a window is a constant matrix along each axis. */
const averagePool: Operator = (call) => {
  let x = value(call, 0);
  const { kernel, strides, begin, end, dilations, extra } = poolOf(call, x);
  const countsPadding = int(call, 'count_include_pad', 0) === 1;
  kernel.forEach((length, i) => {
    const [stride, dilation] = [strides[i]!, dilations[i]!];
    const size = x.shape[i + 2]!;
    const padded = size + begin[i]! + end[i]!;
    const reach = dilation * (length - 1) + 1;
    const count = Math.floor((padded + extra[i]! - reach) / stride) + 1;
    x = alongAxis(x, i + 2, count, (at) => {
      const places = written(length, (k) => at * stride + k * dilation);
      const inside = places.map((place) => place - begin[i]!).filter((p) => p >= 0 && p < size);
      const total = countsPadding ? places.filter((p) => p < padded).length : inside.length;
      const row = new Array<number>(size).fill(0);
      for (const place of inside) row[place] = 1 / total;
      return row;
    });
  });
  return [x];
};

const overSpace =
  (reduce: (x: Value, axes: readonly number[], keep: boolean) => Value): Operator =>
  (call) => {
    const x = value(call, 0);
    return [reduce(x, x.shape.map((_, i) => i).slice(2), true)];
  };

/** Returns the position in the input that an element of the result is taken from. */
function sourceOf(
  mode: string,
  at: number,
  scale: number,
  [from, to]: readonly [number, number],
): number {
  if (mode === 'asymmetric') return at / scale;
  if (mode === 'align_corners') return to === 1 ? 0 : (at * (from - 1)) / (to - 1);
  if (mode === 'pytorch_half_pixel' && to <= 1) return 0;
  return (at + 0.5) / scale - 0.5;
}

const NEAREST: Readonly<Record<string, (x: number) => number>> = {
  floor: Math.floor,
  ceil: Math.ceil,
  round_prefer_ceil: Math.round,
  round_prefer_floor: (x) => Math.ceil(x - 0.5),
};

/** Returns the weights of the elements around a position, by their index. */
function weightsAt(call: Call, x: number): readonly (readonly [number, number])[] {
  const mode = textOf(call, 'mode', 'nearest');
  if (mode === 'nearest') {
    const round = NEAREST[textOf(call, 'nearest_mode', 'round_prefer_floor')] ?? Math.floor;
    return [[round(x), 1]];
  }
  const low = Math.floor(x);
  const t = x - low;
  if (mode === 'linear')
    return [
      [low, 1 - t],
      [low + 1, t],
    ];
  const a = int(call, 'cubic_coeff_a', -0.75);
  const near = (d: number) => ((a + 2) * d - (a + 3)) * d * d + 1;
  const far = (d: number) => ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return [
    [low - 1, far(t + 1)],
    [low, near(t)],
    [low + 1, near(1 - t)],
    [low + 2, far(2 - t)],
  ];
}

/** Resizing by interpolation is a constant matrix along each axis. */
const resize: Operator = (call) => {
  let x = value(call, 0);
  const scales = list(call, 2);
  const sizes = list(call, 3);
  const mode = textOf(call, 'coordinate_transformation_mode', 'half_pixel');
  if (mode === 'tf_crop_and_resize' || int(call, 'antialias', 0) === 1) {
    throw refusal(call, 'crops or smooths', 'resize with interpolate(antialias=False)');
  }
  const axes = front(axesOf(call, 99) ?? x.shape.map((_, i) => i), x.shape.length);
  axes.forEach((axis, i) => {
    const from = x.shape[axis]!;
    const to = sizes?.length ? sizes[i]! : Math.floor(from * scales![i]!);
    if (to === from) return;
    const scale = sizes?.length ? to / from : scales![i]!;
    x = alongAxis(x, axis, to, (at) => {
      const row = new Array<number>(from).fill(0);
      for (const [place, weight] of weightsAt(call, sourceOf(mode, at, scale, [from, to]))) {
        row[Math.min(from - 1, Math.max(0, place))]! += weight;
      }
      return row;
    });
  });
  return [x];
};

export const windows: Operators = {
  Conv: conv,
  ConvTranspose: convTranspose,
  MaxPool: maxPool,
  AveragePool: averagePool,
  GlobalAveragePool: overSpace(ops.reduceMean),
  GlobalMaxPool: overSpace(ops.reduceMax),
  Resize: resize,
};
