/** Parameter layout, parameter count and initialization of a model. */
import { deriveKey, type Key, philox, unit } from '../base/rng.ts';
import { compareCodePoints, createLayout, type Layout, type Params } from '../tensor/params.ts';
import type { Range } from '../tensor/partial-vector.ts';
import type { TensorSpec } from './architectures/architecture.ts';
import { type AnyModel, expertsOf, modelOf, tiersOf } from './architectures/table.ts';
import type { HiddenMatrix } from './optimizers/optimizer.ts';
import type { StatisticRange } from './optimizers/statistics.ts';

/** Lays out all tensors end to end: by slice, if the model has tiers, then by code point of their names. */
export function modelLayout(spec: AnyModel): Layout {
  const layout = createLayout(sorted(spec));
  return tiersOf(spec) ? { ...layout, slices: rangesBySlice(fullModelOf(spec)) } : layout;
}

/** Returns the number of trained parameters of a model. */
export const countParameters = (spec: AnyModel): number => modelLayout(spec).size;

/** Returns the matrices between hidden layers, without embeddings, the last layer and vectors. */
export function hiddenMatrices(spec: AnyModel): readonly HiddenMatrix[] {
  const { slots } = modelLayout(spec);
  return sorted(spec).flatMap(({ shape: [rows, columns], abreast }, i) => {
    const { offset, size } = slots[i]!;
    if (abreast === undefined) return [];
    return [{ from: offset, to: offset + size, rows: rows!, columns: columns!, abreast }];
  });
}

/** Returns the running statistics, which no optimizer updates. */
export function statisticRanges(spec: AnyModel): readonly StatisticRange[] {
  const { slots } = modelLayout(spec);
  return sorted(spec).flatMap(({ rate }, i) => {
    const { offset, size } = slots[i]!;
    return rate === undefined ? [] : [{ from: offset, to: offset + size, rate }];
  });
}

/** Sorts tensors by slice, so that each slice is one range, then by name. */
const sorted = (spec: AnyModel): readonly TensorSpec[] =>
  [...modelOf(spec).tensors].sort(
    (a, b) => (a.slice ?? 0) - (b.slice ?? 0) || compareCodePoints(a.name, b.name),
  );

/** Returns the range of the shared tensors, then of each expert in order. Empty for a model without experts. */
export const expertRanges = (spec: AnyModel): readonly Range[] =>
  expertsOf(spec) ? rangesBySlice(spec) : [];

function rangesBySlice(spec: AnyModel): readonly Range[] {
  const tensors = sorted(spec);
  const { slots, size } = createLayout(tensors);
  const slices = tensors.map(({ slice }) => slice ?? 0);
  const starts = slots.filter((_, i) => i === 0 || slices[i] !== slices[i - 1]);
  return starts.map(({ offset }, i) => ({ from: offset, to: starts[i + 1]?.offset ?? size }));
}

/** Returns the full model of a tier's spec; the spec itself without tiers. */
export function fullModelOf(spec: AnyModel): AnyModel {
  const tiers = tiersOf(spec);
  if (!tiers) return spec;
  return spec.architecture === 'own'
    ? spec.ofTier!(0)
    : ({ ...spec, tiers: { ...tiers, tier: 0, helps: false } } as AnyModel);
}

/** Returns the initial parameters: the same values on every machine for the same model and seed. */
export const initialParameters = (spec: AnyModel, seed: number | string): Float32Array =>
  drawn(sorted(spec), seed).values;

/** Returns the initial parameters of one slice of a model with tiers. */
export const initialSlice = (spec: AnyModel, seed: number | string, slice: number): Params =>
  drawn(
    sorted(spec).filter((tensor) => (tensor.slice ?? 0) === slice),
    seed,
  );

function drawn(
  tensors: readonly TensorSpec[],
  seed: number | string,
): Params & { readonly values: Float32Array } {
  const layout = createLayout(tensors);
  const values = new Float32Array(layout.size);
  tensors.forEach((tensor, i) => {
    values.set(initialTensor(tensor, seed), layout.slots[i]!.offset);
  });
  return { layout, values };
}

/** Returns the initial values of a tensor, which depend only on its name, its shape and the seed. */
export function initialTensor(
  { name, shape, start }: TensorSpec,
  seed: number | string,
): Float32Array {
  const values = new Float32Array(shape.reduce((product, dim) => product * dim, 1));
  if (start === 'ones') return values.fill(1);
  if (start === 'zeros') return values;
  const key = deriveKey('nostrain/initial', seed, name);
  if ('bound' in start) drawEven(values, key, start.bound);
  else drawNormal(values, key, start.deviation);
  return values;
}

/** Fills an array with uniform draws from [-bound, bound], one per word of a Philox block. */
function drawEven(into: Float32Array, key: Key, bound: number): void {
  for (let i = 0; i < into.length; i += 4) {
    const drawn = philox(key, i / 4, 0, 0, 0).map((word) => (2 * unit(word) - 1) * bound);
    into.set(drawn.slice(0, into.length - i), i);
  }
}

/** Mean of the sum of 8 uniform 16-bit integers; its variance is 8 (2^32 - 1) / 12. */
const MEAN = 4 * 0xffff;
const DEVIATION = Math.sqrt((8 * 0xffff_ffff) / 12);

/**
 * Fills an array with approximately normal draws: the sum of the eight 16-bit halves of a Philox block. Unlike methods
 * with logarithms, it gives the same bits on every engine. At most 4.9 standard deviations from 0.
 */
function drawNormal(into: Float32Array, key: Key, deviation: number): void {
  for (let i = 0; i < into.length; i++) {
    let sum = 0;
    for (const word of philox(key, i, 0, 0, 0)) sum += (word >>> 16) + (word & 0xffff);
    into[i] = ((sum - MEAN) / DEVIATION) * deviation;
  }
}
