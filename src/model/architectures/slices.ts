/**
 * Cuts a model into slices for MatFormer tiers (arXiv 2310.07707). Slice 0 is the smallest tier; each further slice
 * holds the feed-forward columns that the next larger tier adds. Slices follow each other in the parameter vector, each
 * padded to whole chunks, so a tier is a prefix of the full model's vector.
 */
import type { Tiers } from '../../run/spec/model-spec.ts';
import { CHUNK_LENGTH, type Range } from '../../tensor/partial-vector.ts';
import { concat } from '../graph/verbs.ts';
import type { FrozenTensor, Model, TensorSpec, Weights } from './architecture.ts';

/** Returns the name of a tensor's part in a slice; in slice 0 the name itself. */
const sliceName = (name: string, slice: number): string =>
  slice === 0 ? name : `${name}.ring${slice}`;

/** Returns the slice index in a tensor's name; 0 if the name has none. */
export const sliceIndexOf = (name: string): number => Number(/\.ring(\d)$/.exec(name)?.[1] ?? 0);

/** Returns the name of the zeros at the end of a slice, which no program reads. */
const paddingName = (slice: number): string => `padding.ring${slice}`;

/** Returns the widths of a tier's slices; with two tiers a quarter, a quarter and a half, or (even) four quarters. */
export function sliceWidths(ffn: number, { count, tier, even, helps }: Tiers): readonly number[] {
  if (even) return Array(2 ** (count - tier) + (helps ? 1 : 0)).fill(ffn / 2 ** count);
  const widths = Array.from({ length: count - tier + 1 }, (_, slice) => ffn / 2 ** (count - slice));
  return widths.map((width, slice) => (slice === 0 ? width : width / 2));
}

/** Returns the index of the full model's last slice, which needs no padding. */
const lastSlice = ({ count, even }: Tiers): number => (even ? 2 ** count - 1 : count);

/** Returns the tier with the given number of slices, or the next smaller one. */
export const tierWith = ({ count, even }: Omit<Tiers, 'tier'>, slices: number): number =>
  Math.max(0, count - (even ? Math.floor(Math.log2(slices)) : slices - 1));

/** Returns the feed-forward width of the trained model. */
export const widthIn = (ffn: number, tiers: Tiers): number =>
  sliceWidths(ffn, tiers).reduce((sum, width) => sum + width, 0);

/** Returns a tier's model with its tensors in slices; `ffn` is the feed-forward width of the full model. */
export function sliceModel<M extends Model>(model: M, tiers: Tiers, ffn: number): M {
  const widths = sliceWidths(ffn, tiers);
  const { tensors, frozen = [], decoding } = model;
  const axes = new Map([...tensors, ...frozen].map(({ name, inner }) => [name, inner]));
  const slices = widths.map((width, slice) =>
    tensors.flatMap((tensor) => partIn(tensor, slice, width)),
  );
  const trained = slices.flatMap((parts, slice) =>
    slice === lastSlice(tiers) && parts.length > 0 ? parts : [...parts, ...padding(parts, slice)],
  );
  const asData = widths.flatMap((width, slice) =>
    frozen.flatMap((tensor) => partIn(tensor, slice, width)),
  );
  const joined =
    (weights: Weights): Weights =>
    (name) => {
      const axis = axes.get(name);
      if (axis === undefined || widths.length === 1) return weights(name);
      const outer = widths.slice(1).map((_, i) => weights(sliceName(name, i + 1)));
      return concat([weights(name), ...outer], axis);
    };
  return {
    ...model,
    tensors: trained,
    ...(model.frozen && { frozen: asData }),
    predict: (weights, inputs) => model.predict(joined(weights), inputs),
    losses: (weights, batch) => model.losses(joined(weights), batch),
    ...(decoding && { decoding: decoding.inParts([...asData, ...trained], joined) }),
  };
}

function partIn<T extends FrozenTensor>(tensor: T, slice: number, width: number): readonly T[] {
  const { name, shape, inner } = tensor;
  if (inner === undefined) return slice === 0 ? [tensor] : [];
  return [{ ...tensor, name: sliceName(name, slice), shape: shape.with(inner, width), slice }];
}

/** Zeros that fill a slice up to whole chunks. A slice without trained tensors gets one chunk: tiers differ in size. */
export function padding(
  tensors: readonly TensorSpec[],
  slice: number,
  name = paddingName(slice),
): readonly TensorSpec[] {
  const sizes = tensors.map(({ shape }) => shape.reduce((product, dim) => product * dim, 1));
  const missing = -sizes.reduce((sum, size) => sum + size, 0) % CHUNK_LENGTH;
  if (missing === 0 && sizes.length > 0) return [];
  return [{ name, shape: [missing + CHUNK_LENGTH], start: 'zeros', slice }];
}

/** A tensor, and its axis along the feed-forward width. */
type Along = Pick<TensorSpec, 'name' | 'shape' | 'inner'>;

/** Returns the range of a tensor along the feed-forward width; all values if it has no such axis. */
export function rangeAlong(
  { shape, inner }: Pick<Along, 'shape' | 'inner'>,
  values: Float32Array,
  { from, to }: Range,
): Float32Array {
  if (inner === undefined) return values;
  const { runs, run, length } = strides(shape, inner);
  const part = new Float32Array(runs * (to - from) * run);
  for (let i = 0; i < runs; i++) {
    const start = (i * length + from) * run;
    part.set(values.subarray(start, start + (to - from) * run), i * (to - from) * run);
  }
  return part;
}

/** Cuts a tier's tensor into slices, by the names of the parts. */
export function sliceTensor(
  tensor: Along,
  values: Float32Array,
  tiers: Tiers,
  ffn: number,
): ReadonlyMap<string, Float32Array> {
  if (tensor.inner === undefined) return new Map([[tensor.name, values]]);
  let from = 0;
  return new Map(
    sliceWidths(ffn, tiers).map((width, slice) => {
      const part = rangeAlong(tensor, values, { from, to: from + width });
      from += width;
      return [sliceName(tensor.name, slice), part];
    }),
  );
}

/** Joins a tensor from its available slices; undefined if the first one is missing. */
export function joinSlices(
  { name, shape, inner }: Along,
  valuesOf: (name: string) => Float32Array | undefined,
): Float32Array | undefined {
  const first = valuesOf(name);
  if (inner === undefined || first === undefined) return first;
  const parts = [first];
  for (
    let part = valuesOf(sliceName(name, 1));
    part;
    part = valuesOf(sliceName(name, parts.length))
  ) {
    parts.push(part);
  }
  const { runs } = strides(shape, inner);
  const joined = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (let i = 0; i < runs; i++) {
    for (const part of parts) {
      const each = part.length / runs;
      joined.set(part.subarray(i * each, (i + 1) * each), at);
      at += each;
    }
  }
  return joined;
}

/** Memory layout along an axis: `runs` runs, each of `length` pieces with `run` values. */
function strides(shape: readonly number[], axis: number) {
  const sizeOf = (dims: readonly number[]) => dims.reduce((product, dim) => product * dim, 1);
  return {
    runs: sizeOf(shape.slice(0, axis)),
    run: sizeOf(shape.slice(axis + 1)),
    length: shape[axis]!,
  };
}
