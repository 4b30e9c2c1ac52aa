/** Opens a worker's tier of a published model, from a slice on disk or cut out of the full model; and identifies it. */
import { toHex } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { sliceWidths } from '../../model/architectures/slices.ts';
import { tiersIn } from '../../model/from-settings.ts';
import { rawBytes } from '../../pretrained/export/folders.ts';
import type { Pretrained } from '../../pretrained/pretrained.ts';
import { narrowModel, numbersBySlice } from '../../pretrained/tiers/cut-tier.ts';
import { schemaHash, tierOf } from '../../pretrained/tiers/tier.ts';
import type { Settings } from '../../run/settings.ts';
import type { DecoderSpec, Tiers } from '../../run/spec/model-spec.ts';
import type { BaseFile } from '../../run/spec/start.ts';
import { kindOf } from '../files/atomic-file.ts';
import { createNativeSha256 } from '../native/sha256.ts';
import { openLocalModel } from './model-files.ts';
import { findTier, type TierLoad } from './tier-files.ts';

export interface BaseTier {
  /** The model at the width of the tier. */
  readonly pretrained: Pretrained;
  /** The architecture of the full model, and the tier. */
  readonly spec: DecoderSpec & { readonly tiers: Tiers };
  /** Loaded from a slice (`sliced`) or cut out of the full model (`universal`). */
  readonly strategy: 'sliced' | 'universal';
}

type TierSettings = Pick<Settings, 'tiers' | 'tier' | 'tierStrategy' | 'helper' | 'helperRotation'>;

interface Opening {
  readonly context?: number | undefined;
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

/** Opens the tier of these settings. Throws a ConfigError (`tiers/…`) if it does not exist or a file is wrong. */
export async function openBaseTier(
  path: string,
  settings: TierSettings,
  { context, onNotice, signal }: Opening,
): Promise<BaseTier> {
  const { tiers: count, tier, tierStrategy, helper } = settings;
  const wanted = {
    tier: tier === 'auto' ? 0 : Number(tier),
    strategy: tierStrategy,
    signal,
    onNotice,
  };
  const isFolder = (await kindOf(path)) === 'folder';
  const load = isFolder ? await findTier(path, wanted) : ofFile(path, wanted);
  if (load.notice !== undefined && tier !== 'auto') onNotice(load.notice);
  if (helper && load.tier > 0) {
    throw new ConfigError(
      'tiers/helper',
      `${load.folder} is tier ${load.tier}, and a helper needs the full model`,
      {
        hint: 'name the folder of the full model, or leave helper out',
        data: { tier: load.tier },
      },
    );
  }
  const effectiveTier = load.tier + load.slicing;
  if (effectiveTier > count) {
    throw new ConfigError(
      'tiers/no-such-tier',
      `${load.folder} is tier ${effectiveTier}, and the run has tiers 0 to ${count}`,
      { hint: 'name a larger tier of the model with --base, or agree on more --tiers' },
    );
  }
  const opened = await openLocalModel(load.folder, { context });
  const { base: ffn } = tierOf(opened.config, opened.name);
  return {
    pretrained: helper ? opened : narrowModel(opened, load.slicing),
    spec: {
      ...opened.spec,
      ffn,
      tiers: { ...tiersIn(settings).tiers, count, tier: effectiveTier },
    },
    strategy: load.slicing === 0 && effectiveTier > 0 ? 'sliced' : 'universal',
  };
}

/** Returns the full model in one file, to be cut. Throws a ConfigError if slices are required. */
function ofFile(
  path: string,
  { tier, strategy }: { readonly tier: number; readonly strategy: Settings['tierStrategy'] },
): Pick<TierLoad, 'folder' | 'tier' | 'slicing' | 'notice'> {
  if (strategy !== 'sliced' || tier === 0) return { folder: path, tier: 0, slicing: tier };
  throw new ConfigError('tiers/missing-file', `${path} is a single file and has no slices`, {
    hint: 'name a folder written by `nostrain tiers export`, or use --set tierStrategy=auto',
    data: { path },
  });
}

/** Identifies a base across tiers, whatever its files: by its shape, and the weights that all tiers have. */
export function identityOfTiers(
  { pretrained, spec }: BaseTier,
  sliceHashes: readonly SliceHash[],
): readonly BaseFile[] {
  const names = [...pretrained.tensors.keys()];
  const schema = schemaHash(pretrained.config, names, pretrained.name);
  return [
    { name: 'shape', bytes: names.length, sha256: schema },
    { name: `weights of tier ${spec.tiers.count}`, ...sliceHashes[0]! },
  ];
}

type SliceHash = Omit<BaseFile, 'name'>;

/** Hashes the weights of a tier slice by slice: as f32, in the order of the model's tensors. */
export async function hashSlices(
  pretrained: Pretrained,
  ffn: number,
  tiers: Tiers,
): Promise<readonly SliceHash[]> {
  const widths = sliceWidths(ffn, tiers);
  const hashes = widths.map(() => ({ hash: createNativeSha256(), bytes: 0 }));
  for await (const { slice, values } of numbersBySlice(pretrained, widths)) {
    const entry = hashes[slice]!;
    entry.hash.update(rawBytes(values));
    entry.bytes += values.byteLength;
  }
  return hashes.map(({ hash, bytes }) => ({ bytes, sha256: toHex(hash.digest()) }));
}
