/**
 * Graph inputs for the tensors of a model: trained ones are ranges of one flat vector; frozen ones are stored in f32 or
 * f16, or quantized by blocks to 8 or 4 bits. Also does the quantizing.
 */

import { ConfigError } from '../base/errors.ts';
import type { Precision } from '../run/spec/model-spec.ts';
import { halfToNumber, numberToHalf, toHalves } from '../tensor/dtype.ts';
import type { Layout } from '../tensor/params.ts';
import type { FrozenTensor, Model, Weights } from './architectures/architecture.ts';
import type { Feeds } from './feeds.ts';
import type { Graph } from './graph/builder.ts';
import { BLOCK } from './graph/ops/widening.ts';
import type { Value } from './graph/rule.ts';
import { reshape, split, widen } from './graph/verbs.ts';
import type { DType, Shape } from './onnx.ts';

/** One input of a graph. */
export interface Part {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
}

/** Elements of a part: f32 numbers, the bits of f16 numbers, or integers. */
export type PartElements = Float32Array | Uint16Array | Int8Array | Uint8Array;

/** Returns the precision of a frozen tensor; f16 instead of blocks if its rows are not whole blocks. */
const storedPrecision = ({ shape, precision = 'f32' }: FrozenTensor): Precision =>
  precision !== 'f32' && precision !== 'f16' && shape.at(-1)! % BLOCK !== 0 ? 'f16' : precision;

/** Returns the graph inputs of a frozen tensor: its numbers under the tensor's name, then scales and offsets. */
export function partsOf(tensor: FrozenTensor): readonly [Part, ...Part[]] {
  const { name, shape } = tensor;
  const along = (length: (width: number) => number) => [
    ...shape.slice(0, -1),
    length(shape.at(-1)!),
  ];
  const perBlock = (what: string): Part => ({
    name: `${name}.${what}`,
    dtype: 'f16',
    shape: along((width) => width / BLOCK),
  });
  switch (storedPrecision(tensor)) {
    case 'f32':
      return [{ name, dtype: 'f32', shape }];
    case 'f16':
      return [{ name, dtype: 'f16', shape }];
    case 'q8':
      return [{ name, dtype: 'i8', shape }, perBlock('scale')];
    case 'q4':
      return [
        { name, dtype: 'u8', shape: along((width) => width / 2) },
        perBlock('scale'),
        perBlock('offset'),
      ];
  }
}

/** Returns the inputs of a frozen tensor with these values. f32 tensors are not copied. */
export function narrowFeeds(tensor: FrozenTensor, values: Float32Array): Feeds {
  const narrowed = narrow(values, tensor);
  const feeds = partsOf(tensor).map(({ name, shape }, i) => [
    name,
    { elements: narrowed[i]!, shape },
  ]);
  return Object.fromEntries(feeds);
}

/** Converts a tensor to the elements of its parts, in their order. */
export function narrow(values: Float32Array, tensor: FrozenTensor): readonly PartElements[] {
  switch (storedPrecision(tensor)) {
    case 'f32':
      return [values];
    case 'f16':
      return [toHalves(values)];
    case 'q8':
      return narrowTo8(values);
    case 'q4':
      return narrowTo4(values);
  }
}

/** Largest finite f16. */
const MOST = 65_504;

/** Rounds a number to f16. Returns it with its bits. */
function half(value: number): readonly [number, number] {
  const bits = numberToHalf(Math.max(-MOST, Math.min(MOST, value)));
  return [halfToNumber(bits), bits];
}

function narrowTo8(values: Float32Array): readonly PartElements[] {
  const whole = new Int8Array(values.length);
  const scales = new Uint16Array(values.length / BLOCK);
  for (let block = 0; block < scales.length; block++) {
    const from = block * BLOCK;
    let largest = 0;
    for (let i = from; i < from + BLOCK; i++) largest = Math.max(largest, Math.abs(values[i]!));
    const [scale, bits] = half(largest / 127);
    scales[block] = bits;
    if (scale === 0) continue;
    for (let i = from; i < from + BLOCK; i++) whole[i] = nearest(values[i]! / scale, -127, 127);
  }
  return [whole, scales];
}

function narrowTo4(values: Float32Array): readonly PartElements[] {
  const bytes = new Uint8Array(values.length / 2);
  const scales = new Uint16Array(values.length / BLOCK);
  const offsets = new Uint16Array(scales.length);
  for (let block = 0; block < scales.length; block++) {
    const from = block * BLOCK;
    const grid = bestGrid(values, from);
    [scales[block], offsets[block]] = grid.bits;
    for (let i = 0; i < BLOCK / 2; i++) {
      const low = gridIndex(grid, values[from + i]!);
      const high = gridIndex(grid, values[from + i + BLOCK / 2]!);
      bytes[from / 2 + i] = low | (high << 4);
    }
  }
  return [bytes, scales, offsets];
}

/** The numbers scale * q + offset, for q from 0 to 15. */
interface Grid {
  readonly scale: number;
  readonly offset: number;
  /** 1 / scale, or 0 if the scale is 0. */
  readonly inverse: number;
  /** Bits of scale and offset as f16. */
  readonly bits: readonly [number, number];
}

/**
 * Returns the grid that fits a block best: from its smallest number to its largest, or one that contains 0 and ends at
 * the number furthest from 0.
 */
function bestGrid(values: Float32Array, from: number): Grid {
  let [least, most] = [values[from]!, values[from]!];
  for (let i = from + 1; i < from + BLOCK; i++) {
    const value = values[i]!;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  const between = gridOf((most - least) / 15, least);
  const furthest = -least > most ? least : most;
  const [scale] = half(furthest / -8);
  const around = gridOf(scale, -8 * scale);
  const error = errorOf(between, values, from);
  return errorOf(around, values, from, error) < error ? around : between;
}

function gridOf(scale: number, offset: number): Grid {
  const [halfScale, scaleBits] = half(scale);
  const [halfOffset, offsetBits] = half(offset);
  const inverse = halfScale === 0 ? 0 : 1 / halfScale;
  return { scale: halfScale, offset: halfOffset, inverse, bits: [scaleBits, offsetBits] };
}

const gridIndex = ({ inverse, offset }: Grid, value: number): number =>
  nearest((value - offset) * inverse, 0, 15);

/** Returns the sum of squared rounding errors of a block on a grid, or a part of it that is at least `most`. */
function errorOf(grid: Grid, values: Float32Array, from: number, most = Infinity): number {
  let sum = 0;
  for (let i = from; i < from + BLOCK && sum < most; i++) {
    const lost = values[i]! - (grid.scale * gridIndex(grid, values[i]!) + grid.offset);
    sum += lost * lost;
  }
  return sum;
}

function nearest(value: number, low: number, high: number): number {
  if (value <= low) return low;
  return value >= high ? high : Math.floor(value + 0.5);
}

/** Opens the model's tensors: ranges of the flat vector, or named inputs if they are frozen. */
export function openWeights(
  graph: Graph,
  flat: Value,
  layout: Layout,
  { frozen = [] }: Model,
): Weights {
  const tensors = slices(flat, layout);
  for (const tensor of frozen) {
    tensors.set(tensor.name, openFrozen(graph, tensor, flat.dtype as 'f32' | 'f64'));
  }
  return (name) => {
    const tensor = tensors.get(name);
    if (tensor) return tensor;
    throw new ConfigError(
      'model/tensor',
      `Your model uses weights(${JSON.stringify(name)}), but its tensors are: ` +
        `${[...tensors.keys()].join(', ')}.`,
    );
  };
}

/** Adds the inputs of a frozen tensor and returns its numbers, widened. */
export function openFrozen(graph: Graph, tensor: FrozenTensor, dtype: 'f32' | 'f64'): Value {
  const [first, ...others] = partsOf(tensor);
  if (first.dtype === 'f32') return graph.input(first.name, { ...first, dtype });
  return widen(
    [graph.input(first.name, first), ...others.map((part) => graph.input(part.name, part))],
    dtype,
  );
}

function slices(flat: Value, { slots }: Layout): Map<string, Value> {
  const pieces = split(
    flat,
    0,
    slots.map(({ size }) => size),
  );
  return new Map(slots.map(({ name, shape }, i) => [name, reshape(pieces[i]!, shape)] as const));
}
