/**
 * Tiers of width (MatFormer, arXiv 2310.07707): tier t of a model keeps the first 1/2^t of every feed-forward layer. How wide one is, which tier a
 * config.json is of, and what all tiers of one model have in common.
 *
 * Keys of config.json and the manifest are those of psyche-elastic: https://github.com/plugyawn/psyche-elastic.
 */
import { toHex } from '../../base/bytes.ts';
import { canonicalJson, type Json } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import { hashFields } from '../../base/hash.ts';

export type Config = Readonly<Record<string, unknown>>;

/** Tier 16 of a width of 65,536 is one column. */
export const MOST_TIER = 16;

/** Families whose feed-forward layer is gate, up and down. */
const FAMILIES = ['llama', 'mistral', 'qwen2', 'qwen3'];

/** Which tier a checkpoint is of, and how wide the whole model is. */
export interface CheckpointTier {
  readonly tier: number;
  readonly base: number;
}

const isWidth = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) > 0;

/** As its keys say, or as its width is a power of two below that of the whole model. Throws a `ConfigError` where neither can be. */
export function tierOf(config: Config, name: string): CheckpointTier {
  const { matformer_tier: said, matformer_base_intermediate_size: stated } = config;
  const width = widthOf(config, name);
  if (said !== undefined && said !== null) {
    const isTier = Number.isSafeInteger(said) && Number(said) >= 0 && Number(said) <= MOST_TIER;
    const base = isWidth(stated) ? stated : width * 2 ** Number(said);
    if (isTier && base === width * 2 ** Number(said)) return { tier: Number(said), base };
    throw unfit(name, `matformer_tier ${String(said)} does not fit widths ${width} and ${base}`);
  }
  if (stated === undefined || stated === null) return { tier: 0, base: width };
  const tier = Math.log2(Number(stated) / width);
  if (isWidth(stated) && Number.isInteger(tier) && tier >= 0 && tier <= MOST_TIER) {
    return { tier, base: stated };
  }
  throw unfit(name, `its width ${width} is no half, quarter or so on of ${String(stated)}`);
}

function widthOf({ intermediate_size: width, model_type: type }: Config, name: string): number {
  if (!FAMILIES.some((family) => family === type)) {
    throw unfit(name, `tiers are cut out of ${FAMILIES.join(', ')}, and this is ${String(type)}`);
  }
  if (isWidth(width)) return width;
  throw unfit(name, 'it has no intermediate_size');
}

const unfit = (name: string, reason: string): ConfigError =>
  new ConfigError('tiers/config', `config.json of ${name}: ${reason}`, {
    hint: 'name the folder of a whole model with gate, up and down matrices',
  });

/** The width of a tier. Throws a `ConfigError` that names what cannot be cut. */
export function widthAt(base: number, tier: number, what: string): number {
  const divisor = 2 ** tier;
  if (tier <= MOST_TIER && base % divisor === 0) return base / divisor;
  throw new ConfigError(
    'tiers/width',
    `${what} is ${base} wide, which ${divisor} does not divide: there is no tier ${tier}`,
    { hint: 'ask for a lower tier', data: { what, width: base, divisor } },
  );
}

/** The config of a tier of this model. */
export const configAt = (config: Config, { tier, base }: CheckpointTier): Config => ({
  ...config,
  intermediate_size: widthAt(base, tier, 'intermediate_size'),
  matformer_tier: tier,
  matformer_base_intermediate_size: base,
});

/** What may differ between tiers of one model, or is said otherwise by other programs. */
const LOOSE = [
  'intermediate_size',
  'matformer_tier',
  'matformer_base_intermediate_size',
  'dtype',
  'torch_dtype',
  'transformers_version',
  '_name_or_path',
  'use_cache',
];

/** The same for every tier of one model, and another one for a model with other sizes or other tensors. */
export function schemaHash(config: Config, tensors: readonly string[], name: string): string {
  const { base } = tierOf(config, name);
  const kept = Object.entries(config).filter(([key]) => !LOOSE.includes(key));
  const schema = { config: Object.fromEntries(kept), base, tensors: [...tensors].sort() };
  return toHex(hashFields('nostrain/tiers', canonicalJson(schema as unknown as Json)));
}
