/**
 * MatFormer tiers in a certified run (docs/tiers.md): the slices of its model, which of them a worker has, and their
 * roots. The model root is over the roots of all slices, so a worker checks the slices it has and takes the others from
 * outcomes.
 */
import { ConfigError } from '../../base/errors.ts';
import { type ModelState, modelRoot, readState, rootOfSlices } from '../../consensus/roots.ts';
import { modelOfRun } from '../../model/from-settings.ts';
import { initialSlice } from '../../model/parameters.ts';
import type { PayloadRoot } from '../../network/chunks/payload.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Digest } from '../../run/ids.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { type Layout, localSlices, type Params } from '../../tensor/params.ts';
import type { Range } from '../../tensor/partial-vector.ts';
import { partsOf } from '../../worker/apply-round.ts';
import { BYTES_PER_PARAMETER } from './evidence.ts';

/** Roots by which a model is certified. */
export interface Roots {
  readonly modelRoot: Digest;
  /** Root of each slice; only in runs with tiers. */
  readonly sliceRoots?: readonly Digest[] | undefined;
}

/** Returns the roots of the slices that a state has; undefined in a run without tiers. */
export const localSliceRoots = ({
  sliceRoots,
  params: { layout },
}: Roots & { readonly params: Params }): readonly Digest[] | undefined =>
  sliceRoots?.slice(0, localSlices(layout).length);

/**
 * Returns the tier of a worker whose layout has this size; 0 in a run without tiers. Throws a ConfigError (`run/tier`)
 * if no tier has this size.
 */
export function tierOf(spec: Pick<RunSpec, 'tiers'>, layout: Omit<Layout, 'slots'>): number {
  const local = localSlices(layout);
  if (local.at(-1)?.to === layout.size) return spec.tiers + 1 - local.length;
  throw new ConfigError('run/tier', `no tier of this run has ${layout.size} parameters`, {
    hint: `choose one of --tier 0 to --tier ${spec.tiers}`,
  });
}

/** Returns how many slices a worker of this tier has. */
export const sliceCountOf = ({ tiers }: Pick<RunSpec, 'tiers'>, tier: number): number =>
  tiers + 1 - tier;

/** Returns each local slice as a state of its own. */
export function sliceStates({ params, momentum }: ModelState): readonly ModelState[] {
  const slices = localSlices(params.layout);
  return partsOf(params).map((part, i) => ({
    params: part,
    momentum: momentum.subarray(slices[i]!.from, slices[i]!.to),
  }));
}

/**
 * Returns the roots after a step: recomputed for local slices that moved, unchanged or taken from the outcome for the
 * others.
 */
export function rootsAfter(
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
  const slices = localSlices(model.params.layout);
  const { sliceRoots = [before.modelRoot] } = before;
  const localRoots = sliceStates(model).map((slice, i) =>
    moved(slices[i]!) ? modelRoot(slice, hash) : sliceRoots[i]!,
  );
  return rootsOfSlices([...localRoots, ...(outer ?? sliceRoots).slice(localRoots.length)]);
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
  const localRoots = sliceStates({ params, momentum }).map((slice) => modelRoot(slice, hash));
  const declared = declaredRoots(spec)?.sliceRoots;
  const sliceRoots = Array.from({ length: spec.tiers + 1 }, (_, slice) => {
    const known = localRoots[slice] ?? declared?.[slice];
    if (known !== undefined) return known;
    const drawn = initialSlice(modelOfRun(spec), spec.training.seed, slice);
    return modelRoot({ params: drawn, momentum: drawn.values.slice().fill(0) }, hash);
  });
  return rootsOfSlices(sliceRoots);
}

/** Returns the payloads by which a state of this layout is transferred, one per slice. */
export const payloadsOf = (roots: Roots, layout: Layout): readonly PayloadRoot[] =>
  localSlices(layout).map(({ from, to }, i) => ({
    root: roots.sliceRoots?.[i] ?? roots.modelRoot,
    bytes: BYTES_PER_PARAMETER * (to - from),
  }));

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

/** Returns the roots of a model by those of its slices. A model without tiers has a single one, its model root. */
export const rootsOfSlices = (sliceRoots: readonly Digest[]): Roots =>
  sliceRoots.length > 1
    ? { modelRoot: rootOfSlices(sliceRoots), sliceRoots }
    : { modelRoot: sliceRoots[0]! };
