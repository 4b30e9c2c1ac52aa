/**
 * MatFormer tiers of a published model: what its config says, and the manifest of their files (schema 1 of psyche-
 * elastic). Nothing in a manifest is trusted: paths stay in its folders, every file has a hash.
 */
import { isHex32, toHex } from '../../base/bytes.ts';
import { canonicalJson, type Json } from '../../base/canonical-json.ts';
import { ConfigError, safeLine } from '../../base/errors.ts';
import { hashFields } from '../../base/hash.ts';

export type Config = Readonly<Record<string, unknown>>;

/** Tier 16 of a width of 65,536 is one column. */
export const MOST_TIER = 16;

/** Families whose feed-forward layer is gate, up and down. */
const FAMILIES = ['llama', 'mistral', 'qwen2', 'qwen3'];

/** Which tier a checkpoint is of, and how wide the full model is. */
export interface CheckpointTier {
  readonly tier: number;
  readonly base: number;
}

const isWidth = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) > 0;

/** By its keys, or because its width is a power of two below the full model's. Throws a `ConfigError` otherwise. */
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
    hint: 'name the folder of a full model with gate, up and down matrices',
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

export const MANIFEST = 'matformer_manifest.json';
const VERSION = 1;
const MOST_FILES = 4096;

export interface ManifestTier {
  readonly tier: number;
  readonly width: number;
  /** Relative to the manifest. */
  readonly files: readonly string[];
}

export interface TierManifest {
  /** The width of the full model. */
  readonly base: number;
  /** Files that all tiers share. */
  readonly common: readonly string[];
  /** The full model is tier 0. */
  readonly tiers: readonly ManifestTier[];
  /** By path, in hex. */
  readonly sha256: ReadonlyMap<string, string>;
}

/** A path in the family: a file of the manifest's own folder (`folder` is ''), or of the folder of a tier beside it. */
export interface FamilyPath {
  readonly folder: string;
  readonly file: string;
}

/** Takes a path of a manifest apart. Throws a `ConfigError` for one that leads out of the folder and its tiers. */
export function familyPath(path: string): FamilyPath {
  const parts = path.split('/');
  const isBeside = parts[0] === '..' && /^[\w][\w.-]*-tier\d+$/.test(parts[1] ?? '');
  const rest = isBeside ? parts.slice(2) : parts;
  const isPlain = (part: string) => /^[\w][\w.@+ -]*$/.test(part) && part !== '.' && part !== '..';
  if (path.length <= 500 && rest.length > 0 && rest.every(isPlain)) {
    return { folder: isBeside ? `../${parts[1]}` : '', file: rest.join('/') };
  }
  throw new ConfigError(
    'tiers/InvalidManifestPath',
    `${MANIFEST} names ${safeLine(path)}, which is no file of the model's folder nor of one of ` +
      'its tiers beside it',
    { hint: 'do not use this model: whoever made it reaches for other files', data: { path } },
  );
}

/** Throws a `ConfigError` for anything but a manifest of this version. */
export function readManifest(value: unknown): TierManifest {
  const said = membersOf(value);
  if (said.schema_version !== VERSION) {
    throw new ConfigError(
      'tiers/UnsupportedManifestVersion',
      `${MANIFEST} is of schema version ${JSON.stringify(said.schema_version) ?? 'none'}; this ` +
        `program reads ${VERSION}`,
      { hint: 'export the tiers again: `nostrain tiers export`', data: { read: VERSION } },
    );
  }
  const base = said.matformer_base_intermediate_size;
  if (!isCount(base)) throw broken('matformer_base_intermediate_size is no width');
  const tiers = listOf(said.tiers, 'tiers', MOST_TIER + 1).map((each) => readTier(each, base));
  const common = pathsOf(said.common_files ?? [], 'common_files');
  const sha256 = new Map(
    Object.entries(membersOf(said.sha256)).map(([path, hash]) => [path, String(hash)]),
  );
  for (const path of [...common, ...tiers.flatMap(({ files }) => files)]) {
    familyPath(path);
    if (!isHex32(sha256.get(path) ?? '')) throw broken(`${safeLine(path)} has no sha256`);
  }
  if (new Set(tiers.map(({ tier }) => tier)).size < tiers.length)
    throw broken('a tier is there twice');
  return { base, common, tiers, sha256 };
}

function readTier(value: unknown, base: number): ManifestTier {
  const { tier, files, intermediate_size: said } = membersOf(value);
  if (!Number.isSafeInteger(tier) || Number(tier) < 0) throw broken('a tier has no number');
  const width = widthAt(base, Number(tier), 'matformer_base_intermediate_size');
  if (said !== undefined && said !== width)
    throw broken(`tier ${tier} is ${said} wide, not ${width}`);
  return { tier: Number(tier), width, files: pathsOf(files, `files of tier ${tier}`) };
}

/** The manifest as a file holds it. */
export const writeManifest = ({ base, common, tiers, sha256 }: TierManifest) => ({
  schema_version: VERSION,
  matformer_base_intermediate_size: base,
  common_files: common,
  tiers: tiers.map(({ tier, width, files }) => ({ tier, intermediate_size: width, files })),
  sha256: Object.fromEntries(sha256),
});

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) > 0;

const membersOf = (value: unknown): Readonly<Record<string, unknown>> => {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  throw broken('something in it is no object');
};

function listOf(value: unknown, what: string, most: number): readonly unknown[] {
  if (Array.isArray(value) && value.length <= most) return value;
  throw broken(`${what} is no list of at most ${most}`);
}

function pathsOf(value: unknown, what: string): readonly string[] {
  const paths = listOf(value, what, MOST_FILES);
  if (paths.every((path): path is string => typeof path === 'string')) return paths;
  throw broken(`${what} holds something else than paths`);
}

const broken = (reason: string): ConfigError =>
  new ConfigError('tiers/manifest', `${MANIFEST}: ${reason}`, {
    hint: 'export the tiers again: `nostrain tiers export`',
  });
