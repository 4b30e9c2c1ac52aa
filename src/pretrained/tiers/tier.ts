/**
 * MatFormer tiers of a published model: the tier that a config declares, and the manifest of tier files (schema 1 of
 * psyche-elastic). Manifests are untrusted: paths must stay in their folders, and every file needs a hash.
 */

import { isHex32, toHex } from '../../base/bytes.ts';
import { canonicalJson, type Json } from '../../base/canonical-json.ts';
import { ConfigError, safeLine } from '../../base/errors.ts';
import { hashFields } from '../../base/hash.ts';
import { isCount, isObject, isText, isWithin, type Untyped } from '../../base/shape.ts';

export type Config = Readonly<Record<string, unknown>>;

/** Maximum tier: with a width of 65,536, tier 16 is one column. */
export const MAX_TIER = 16;

/** Model families with gate, up and down matrices in the feed-forward layer. */
const FAMILIES = ['llama', 'mistral', 'qwen2', 'qwen3'];

/** The tier of a checkpoint, and the feed-forward width of the full model (`base`). */
export interface CheckpointTier {
  readonly tier: number;
  readonly base: number;
}

const isWidth = isWithin(1);
const isTier = isWithin(0, MAX_TIER);

/** Returns the tier that a config declares or that follows from its widths. Throws a ConfigError if they do not fit. */
export function tierOf(config: Config, name: string): CheckpointTier {
  const { matformer_tier: declaredTier, matformer_base_intermediate_size: declaredBase } = config;
  const width = widthOf(config, name);
  if (declaredTier !== undefined && declaredTier !== null) {
    const base = isWidth(declaredBase) ? declaredBase : width * 2 ** Number(declaredTier);
    if (isTier(declaredTier) && base === width * 2 ** declaredTier) {
      return { tier: declaredTier, base };
    }
    throw unfit(
      name,
      `matformer_tier ${String(declaredTier)} does not fit widths ${width} and ${base}`,
    );
  }
  if (declaredBase === undefined || declaredBase === null) return { tier: 0, base: width };
  const tier = Math.log2(Number(declaredBase) / width);
  if (isWidth(declaredBase) && isTier(tier)) return { tier, base: declaredBase };
  throw unfit(name, `its width ${width} is not ${String(declaredBase)} divided by a power of two`);
}

function widthOf({ intermediate_size: width, model_type: type }: Config, name: string): number {
  if (!FAMILIES.some((family) => family === type)) {
    throw unfit(name, `tiers need a model of ${FAMILIES.join(', ')}; this is ${String(type)}`);
  }
  if (isWidth(width)) return width;
  throw unfit(name, 'it has no intermediate_size');
}

const unfit = (name: string, reason: string): ConfigError =>
  new ConfigError('tiers/config', `config.json of ${name}: ${reason}`, {
    hint: 'name the folder of a full model with gate, up and down matrices',
  });

/** Returns the feed-forward width of a tier. Throws a ConfigError that names `what` if it is not divisible. */
export function widthAt(base: number, tier: number, what: string): number {
  const divisor = 2 ** tier;
  if (tier <= MAX_TIER && base % divisor === 0) return base / divisor;
  throw new ConfigError(
    'tiers/width',
    `${what} is ${base}, which is not divisible by ${divisor}: there is no tier ${tier}`,
    { hint: 'use a lower tier', data: { what, width: base, divisor } },
  );
}

/** Returns the config of a tier of this model. */
export const configAt = (config: Config, { tier, base }: CheckpointTier): Config => ({
  ...config,
  intermediate_size: widthAt(base, tier, 'intermediate_size'),
  matformer_tier: tier,
  matformer_base_intermediate_size: base,
});

/** Config keys that may differ between tiers of a model, or that other programs write differently. */
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

/** Returns a hash that is the same for all tiers of a model, and differs for other sizes or tensors. */
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
  /** Paths relative to the manifest. */
  readonly files: readonly string[];
}

export interface TierManifest {
  /** Feed-forward width of the full model. */
  readonly base: number;
  /** Files shared by all tiers. */
  readonly common: readonly string[];
  /** The tiers; the full model is tier 0. */
  readonly tiers: readonly ManifestTier[];
  /** SHA-256 of each file by path, in hex. */
  readonly sha256: ReadonlyMap<string, string>;
}

/** A file in the manifest's folder (`folder` is ''), or in a tier folder next to it. */
export interface FamilyPath {
  readonly folder: string;
  readonly file: string;
}

/** Parses a path in a manifest. Throws a ConfigError if it leads out of the folder and its tier folders. */
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
    `${MANIFEST} names ${safeLine(path)}, which is outside the model's folder and its tier folders`,
    { hint: 'do not use this model: its manifest tries to reach other files', data: { path } },
  );
}

/** Parses a manifest. Throws a ConfigError if it is invalid or of another version. */
export function readManifest(value: unknown): TierManifest {
  const manifest = membersOf(value);
  if (manifest.schema_version !== VERSION) {
    throw new ConfigError(
      'tiers/UnsupportedManifestVersion',
      `${MANIFEST} has schema version ${JSON.stringify(manifest.schema_version) ?? 'none'}; this ` +
        `program reads ${VERSION}`,
      { hint: 'export the tiers again: `nostrain tiers export`', data: { read: VERSION } },
    );
  }
  const base = manifest.matformer_base_intermediate_size;
  if (!isWidth(base)) throw broken('matformer_base_intermediate_size is not a width');
  const tiers = listOf(manifest.tiers, 'tiers', MAX_TIER + 1).map((each) => readTier(each, base));
  const common = pathsOf(manifest.common_files ?? [], 'common_files');
  const sha256 = new Map(
    Object.entries(membersOf(manifest.sha256)).map(([path, hash]) => [path, String(hash)]),
  );
  for (const path of [...common, ...tiers.flatMap(({ files }) => files)]) {
    familyPath(path);
    if (!isHex32(sha256.get(path) ?? '')) throw broken(`${safeLine(path)} has no sha256`);
  }
  if (new Set(tiers.map(({ tier }) => tier)).size < tiers.length)
    throw broken('a tier is listed twice');
  return { base, common, tiers, sha256 };
}

function readTier(value: unknown, base: number): ManifestTier {
  const { tier, files, intermediate_size: declaredWidth } = membersOf(value);
  if (!isCount(tier)) throw broken('a tier has no number');
  const width = widthAt(base, tier, 'matformer_base_intermediate_size');
  if (declaredWidth !== undefined && declaredWidth !== width)
    throw broken(`tier ${tier} is ${declaredWidth} wide, not ${width}`);
  return { tier, width, files: pathsOf(files, `files of tier ${tier}`) };
}

/** Returns the manifest as JSON. */
export const writeManifest = ({ base, common, tiers, sha256 }: TierManifest) => ({
  schema_version: VERSION,
  matformer_base_intermediate_size: base,
  common_files: common,
  tiers: tiers.map(({ tier, width, files }) => ({ tier, intermediate_size: width, files })),
  sha256: Object.fromEntries(sha256),
});

const membersOf = (value: unknown): Untyped => {
  if (isObject(value)) return value;
  throw broken('a value is not an object');
};

function listOf(value: unknown, what: string, most: number): readonly unknown[] {
  if (Array.isArray(value) && value.length <= most) return value;
  throw broken(`${what} is not a list of at most ${most} items`);
}

function pathsOf(value: unknown, what: string): readonly string[] {
  const paths = listOf(value, what, MOST_FILES);
  if (paths.every(isText)) return paths;
  throw broken(`${what} contains values that are not paths`);
}

const broken = (reason: string): ConfigError =>
  new ConfigError('tiers/manifest', `${MANIFEST}: ${reason}`, {
    hint: 'export the tiers again: `nostrain tiers export`',
  });
