/**
 * Helpers: workers that hold the full model but only have time to train a small tier and one more slice. The slice
 * follows from the round alone, so all workers know what a helper sends, and helpers of one tier train the same slice
 * together.
 */
import { deriveKey, philox } from '../base/rng.ts';
import type { Digest } from './ids.ts';
import { tierField } from './spec/feature-fields.ts';
import { featureSet, features } from './spec/features.ts';

/** Features of a run with helpers: its contributions also report the tier. */
export const helperFeatures = featureSet(['widths'], {
  widths: {
    ...features.widths,
    manifest: {
      ...features.widths.manifest,
      tier: tierField('which tier it trains, alone or with the slice of the round'),
    },
  },
});

/** What a contribution reports of its slices, in any run with tiers. */
export interface SliceFeature {
  readonly rings: readonly Digest[];
  readonly tier?: number;
}

/** How a run with helpers is divided: into 2^count slices of equal width. */
export interface HelperSlicing {
  /** The smallest tier of the run. */
  readonly count: number;
  /** Rounds until the next slice. */
  readonly rotation: number;
}

/** Returns the number of slices of a tier. */
const sliceCountOfTier = (count: number, tier: number): number => 2 ** (count - tier);

/** Returns the rotations in a cycle, in which helpers of a tier train every slice that the tier lacks. */
export const rotationsOf = ({ count }: Pick<HelperSlicing, 'count'>, tier: number): number =>
  2 ** count - sliceCountOfTier(count, tier);

/**
 * Returns the extra slice that helpers of a tier train in a round. Each outer slice occurs once per cycle, in random
 * order.
 */
export function helperSlice(
  { count, rotation }: HelperSlicing,
  tier: number,
  round: number,
): number {
  const rotations = rotationsOf({ count }, tier);
  const epoch = Math.floor(round / rotation);
  const order = shuffled(rotations, tier, Math.floor(epoch / rotations));
  return sliceCountOfTier(count, tier) + order[epoch % rotations]!;
}

/** Returns the slices that a worker with `sliceCount` slices trains in a round; undefined if no tier has that many. */
export function trainedSlices(
  run: HelperSlicing,
  {
    tier,
    sliceCount,
    round,
  }: { readonly tier: number; readonly sliceCount: number; readonly round: number },
): readonly number[] | undefined {
  if (tier > run.count) return undefined;
  const tierSlices = sliceCountOfTier(run.count, tier);
  const slices = Array.from({ length: tierSlices }, (_, slice) => slice);
  if (sliceCount === tierSlices) return slices;
  return sliceCount === 2 ** run.count ? [...slices, helperSlice(run, tier, round)] : undefined;
}

/** Returns the numbers below `count` in the order of one cycle. */
function shuffled(count: number, tier: number, cycle: number): readonly number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  const key = deriveKey('nostrain/helpers', tier, cycle);
  for (let i = count - 1; i > 0; i--) {
    const j = philox(key, i, 0, 0, 0)[0]! % (i + 1);
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}
