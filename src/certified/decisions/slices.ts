/**
 * MatFormer tiers in a certified run (docs/tiers.md): the slices of its model, which of them a worker has, and their
 * roots. The model root is over the roots of all slices, so a worker checks the slices it has and takes the others from
 * outcomes.
 */
import { ConfigError } from '../../base/errors.ts';
import { type ModelState, modelRoot, readState, rootOfSlices } from '../../consensus/roots.ts';
import { modelOfRun } from '../../model/from-settings.ts';
import { initialSlice, modelLayout, sliceRanges } from '../../model/parameters.ts';
import type { PayloadRoot } from '../../network/chunks/payload.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Digest } from '../../run/ids.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Layout, Params } from '../../tensor/params.ts';
import type { Range } from '../../tensor/partial-vector.ts';
import { partsOf } from '../../worker/apply-round.ts';
import type { Plan } from '../../worker/plan.ts';
import { BYTES_PER_PARAMETER } from './evidence.ts';

/** Slices of a model, or those that a worker has, and the number of parameters of the full model. */
type ModelSlices = NonNullable<Plan['tiers']>;

/** Roots by which a model is certified. */
export interface Roots {
  readonly modelRoot: Digest;
  /** Root of each slice; only in runs with tiers. */
  readonly sliceRoots?: readonly Digest[] | undefined;
}

const laidOut = new WeakMap<RunSpec, ModelSlices>();

/** Returns all slices of a run's model; undefined in a run without tiers. */
export function slicesOfRun(spec: RunSpec): ModelSlices | undefined {
  if (spec.tiers === 0) return undefined;
  const model = modelOfRun(spec);
  const slices = laidOut.get(spec) ?? { slices: sliceRanges(model), size: modelLayout(model).size };
  laidOut.set(spec, slices);
  return slices;
}

/** Returns the slices of a worker whose layout has this size; undefined in a run without tiers. */
export function localSlicesOf(
  spec: RunSpec,
  { size: localSize }: Pick<Layout, 'size'>,
): ModelSlices | undefined {
  const all = slicesOfRun(spec);
  return all && { ...all, slices: all.slices.filter(({ to }) => to <= localSize) };
}

/** Returns the roots of the slices that a state has; undefined in a run without tiers. */
export const localSliceRoots = ({
  spec,
  sliceRoots,
  params,
}: Roots & { readonly spec: RunSpec; readonly params: Params }): readonly Digest[] | undefined =>
  sliceRoots?.slice(0, localSlicesOf(spec, params.layout)!.slices.length);

/** Reports whether a layout lacks part of the model, so that its worker cannot compute the model root. */
export const isPart = (spec: RunSpec, { size }: Pick<Layout, 'size'>): boolean =>
  size < (slicesOfRun(spec)?.size ?? size);

/**
 * Returns the tier of a worker whose layout has this size; 0 in a run without tiers. Throws a ConfigError (`run/tier`)
 * if no tier has this size.
 */
export function tierOf(spec: RunSpec, layout: Pick<Layout, 'size'>): number {
  const local = localSlicesOf(spec, layout);
  if (local?.slices.at(-1)?.to === layout.size) return spec.tiers + 1 - local.slices.length;
  if (local === undefined) return 0;
  throw new ConfigError('run/tier', `no tier of this run has ${layout.size} parameters`, {
    hint: `choose one of --tier 0 to --tier ${spec.tiers}`,
  });
}

/** Returns how many slices a worker of this tier has; undefined in a run without tiers. */
export const sliceCountOf = (
  { tiers }: Pick<RunSpec, 'tiers'>,
  tier: number,
): number | undefined => (tiers === 0 ? undefined : tiers + 1 - tier);

/** Returns each local slice as a state of its own; one state for the full model in a run without tiers. */
export function sliceStates(
  spec: RunSpec,
  { params, momentum }: ModelState,
): readonly ModelState[] {
  const tiers = localSlicesOf(spec, params.layout);
  if (tiers === undefined) return [{ params, momentum }];
  return partsOf(params, { tiers }).map((part, i) => {
    const { from, to } = tiers.slices[i]!;
    return { params: part, momentum: momentum.subarray(from, to) };
  });
}

/**
 * Returns the roots after a step: recomputed for local slices that moved, unchanged or taken from the outcome for the
 * others.
 */
export function rootsAfter(
  spec: RunSpec,
  model: ModelState,
  {
    before,
    moved,
    outer,
    hash,
  }: {
    readonly before: Roots;
    readonly moved: (slice: Range) => boolean;
    /** Roots that an outcome declares for slices this worker does not have. */
    readonly outer?: readonly Digest[] | undefined;
    readonly hash?: Sha256 | undefined;
  },
): Roots {
  const tiers = localSlicesOf(spec, model.params.layout);
  if (tiers === undefined) {
    const whole = { from: 0, to: model.params.layout.size };
    return moved(whole) ? { modelRoot: modelRoot(model, hash) } : before;
  }
  const localRoots = sliceStates(spec, model).map((slice, i) =>
    moved(tiers.slices[i]!) ? modelRoot(slice, hash) : before.sliceRoots![i]!,
  );
  return rootsOfSlices([...localRoots, ...(outer ?? before.sliceRoots!).slice(localRoots.length)]);
}

/** Returns the roots of the first model that a spec declares; undefined unless it trains a whole published model. */
export function declaredRoots({
  start,
  parent,
}: Pick<RunSpec, 'start' | 'parent'>): Roots | undefined {
  const root = parent?.first ?? start?.root ?? null;
  if (root === null) return undefined;
  return typeof root === 'string' ? { modelRoot: root } : rootsOfSlices(root);
}

/** Returns the roots of round 0. Missing slices are taken from the spec, or drawn from the seed and hashed. */
export function firstRoots(spec: RunSpec, params: Params, hash?: Sha256): Roots {
  const momentum = params.values.slice().fill(0);
  const localRoots = sliceStates(spec, { params, momentum }).map((slice) => modelRoot(slice, hash));
  if (spec.tiers === 0) return { modelRoot: localRoots[0]! };
  const model = modelOfRun(spec);
  const declared = declaredRoots(spec)?.sliceRoots;
  const sliceRoots = Array.from({ length: spec.tiers + 1 }, (_, slice) => {
    const known = localRoots[slice] ?? declared?.[slice];
    if (known !== undefined) return known;
    const drawn = initialSlice(model, spec.training.seed, slice);
    return modelRoot({ params: drawn, momentum: drawn.values.slice().fill(0) }, hash);
  });
  return rootsOfSlices(sliceRoots);
}

/** Returns the payloads by which a state of this layout is transferred: one per slice, or a single one. */
export function payloadsOf(spec: RunSpec, roots: Roots, layout: Layout): readonly PayloadRoot[] {
  const slices = localSlicesOf(spec, layout)?.slices ?? [{ from: 0, to: layout.size }];
  return slices.map(({ from, to }, i) => ({
    root: roots.sliceRoots?.[i] ?? roots.modelRoot,
    bytes: BYTES_PER_PARAMETER * (to - from),
  }));
}

export function readSlices(slices: readonly Uint8Array[], layout: Layout): ModelState {
  if (slices.length === 1) return readState(slices[0]!, layout);
  const values = new Float32Array(layout.size);
  const momentum = new Float32Array(layout.size);
  let at = 0;
  for (const bytes of slices) {
    const part = readState(bytes, { slots: [], size: bytes.length / BYTES_PER_PARAMETER });
    values.set(part.params.values, at);
    momentum.set(part.momentum, at);
    at += part.momentum.length;
  }
  return { params: { layout, values }, momentum };
}

export const rootsOfSlices = (sliceRoots: readonly Digest[]): Roots => ({
  modelRoot: rootOfSlices(sliceRoots),
  sliceRoots,
});
