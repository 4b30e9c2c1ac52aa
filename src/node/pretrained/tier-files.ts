/** Exports the tiers of a published model to sibling folders with a manifest, and finds and verifies a tier to load. */
import { readdir, realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { jsonFile, type OutFile } from '../../pretrained/export/folders.ts';
import { cutWeights, tensorNames } from '../../pretrained/tiers/cut-tier.ts';
import {
  type Config,
  configAt,
  familyPath,
  MANIFEST,
  type ManifestTier,
  readManifest,
  schemaHash,
  type TierManifest,
  tierOf,
  widthAt,
  writeManifest,
} from '../../pretrained/tiers/tier.ts';
import { INDEX, type ModelFiles, readJson, SINGLE, weightFiles } from '../../pretrained/weights.ts';
import type { TierStrategy } from '../../run/spec/model-spec.ts';
import type { HashOptions } from '../files/atomic-file.ts';
import { kindOf, writeAtomically } from '../files/atomic-file.ts';
import { assertFree, folderOf, hashFiles, writeFolder } from './model-files.ts';

const CONFIG = 'config.json';
/** Files of a model besides config and weights; they are the same for all tiers. */
const COMMON = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'tokenizer.model',
  'chat_template.jinja',
  'generation_config.json',
];

export interface ExportOptions extends HashOptions {
  onFolder?(folder: string, bytes: number): void;
}

/** Returns the folder of a tier of the model in `source`. */
export const tierFolder = (source: string, tier: number): string =>
  join(dirname(resolve(source)), `${basename(resolve(source))}-tier${tier}`);

/** Exports tiers and returns the manifest. Throws a ConfigError before it writes if a tier is impossible or exists. */
export async function exportTiers(
  source: string,
  tiers: readonly number[],
  { onFolder, ...options }: ExportOptions,
): Promise<TierManifest> {
  const files = folderOf(source);
  const config = await readConfig(files);
  const full = tierOf(config, source);
  if (full.tier > 0) {
    const message = `${source} is already tier ${full.tier} of a model of width ${full.base}`;
    const hint = 'name the folder of the full model';
    throw new ConfigError('tiers/already-sliced', message, { hint, data: { ...full } });
  }
  const wanted = [...new Set(tiers)].sort((a, b) => a - b);
  for (const tier of wanted) widthAt(full.base, tier, 'intermediate_size');
  for (const tier of wanted) await assertFree(tierFolder(source, tier));
  const common = await commonFiles(source, files);
  // all checks come before the first file is written
  const planned = await Promise.all(
    wanted.map(async (tier) => {
      const at = { tier, base: full.base };
      const weights = await cutWeights(files, at);
      return { tier, tierFiles: [jsonFile(CONFIG, configAt(config, at)), ...weights] };
    }),
  );
  for (const { tier, tierFiles } of planned) {
    const folder = tierFolder(source, tier);
    const bytes = await writeFolder(folder, [...tierFiles, ...common], options);
    onFolder?.(folder, bytes);
  }
  const names = await weightFiles(files);
  const universal = [CONFIG, ...names, ...(names[0] === SINGLE ? [] : [INDEX])];
  const entries = [
    { tier: 0, folder: '', names: universal },
    ...planned.map(({ tier, tierFiles }) => {
      const folder = `../${basename(tierFolder(source, tier))}`;
      return { tier, folder, names: tierFiles.map(({ name }) => name) };
    }),
  ];
  const sha256 = new Map<string, string>();
  const hashed = async (folder: string, files: readonly string[]) => {
    const hashes = await hashFiles(join(source, folder), files, options);
    const paths = hashes.map(({ name }) => (folder === '' ? name : `${folder}/${name}`));
    for (const [i, path] of paths.entries()) sha256.set(path, hashes[i]!.sha256);
    return paths;
  };
  const shared = await hashed(
    '',
    common.map(({ name }) => name),
  );
  const described: ManifestTier[] = [];
  for (const { tier, folder, names: tierFiles } of entries) {
    const width = widthAt(full.base, tier, 'intermediate_size');
    described.push({ tier, width, files: await hashed(folder, tierFiles) });
  }
  const manifest = { base: full.base, common: shared, tiers: described, sha256 };
  const text = `${JSON.stringify(writeManifest(manifest), null, 2)}\n`;
  await writeAtomically(join(source, MANIFEST), utf8(text));
  return manifest;
}

/** Returns the config of a model's folder. Throws a ConfigError (`tiers/no-config`) if there is none. */
async function readConfig(files: ModelFiles): Promise<Config> {
  const source = await files.open(CONFIG);
  if (source !== undefined) return (await readJson(source)) as Config;
  throw new ConfigError('tiers/no-config', `${files.name} has no ${CONFIG}`, {
    hint: 'name the folder of a model as transformers loads it',
  });
}

async function commonFiles(source: string, files: ModelFiles): Promise<readonly OutFile[]> {
  const names = new Set(await readdir(source));
  const common: OutFile[] = [];
  for (const name of COMMON) {
    const bytes = names.has(name) ? await files.open(name) : undefined;
    if (bytes === undefined) continue;
    common.push({
      name,
      async *pieces() {
        yield await bytes.read(0, bytes.size);
      },
    });
  }
  return common;
}

export interface TierLoad {
  readonly folder: string;
  readonly tier: number;
  /** How often the width must still be halved. */
  readonly slicing: number;
  /** Hash of the model's shape, equal for all of its tiers. */
  readonly schema: string;
  /** Number of files whose hashes were verified. */
  readonly verified: number;
  /** Why another tier or strategy was chosen than requested. */
  readonly notice?: string | undefined;
}

interface TierRequest extends HashOptions {
  readonly tier: number;
  readonly strategy: TierStrategy;
}

/** Finds the tier to load. Throws a ConfigError (`tiers/…`) that names a missing, changed or unreadable file. */
export async function findTier(folder: string, wanted: TierRequest): Promise<TierLoad> {
  const { tier, strategy } = wanted;
  const files = folderOf(folder);
  const config = await readConfig(files);
  const current = tierOf(config, folder);
  const schema = schemaHash(config, await tensorNames(files), folder);
  if (current.tier > 0) return { ...ofSlice(folder, current.tier, wanted), schema };
  const manifest = await manifestIn(folder);
  const full = async (notice?: string): Promise<TierLoad> => ({
    folder,
    tier: 0,
    slicing: tier,
    schema,
    notice,
    verified: manifest?.tiers.some((each) => each.tier === 0)
      ? await verify(folder, manifest, 0, wanted)
      : 0,
  });
  if (tier === 0 || strategy === 'universal') return full();
  const lacking = await whyNot(folder, manifest, tier);
  if (lacking !== undefined) {
    if (strategy === 'sliced') throw lacking;
    return full(`${lacking.message}: loading the full model instead`);
  }
  const slice = await verifiedSlice(folder, manifest!, tier, wanted);
  if (slice.schema === schema) return slice;
  throw new ConfigError('tiers/SchemaMismatch', `${slice.folder} is a tier of another model`, {
    hint: 'export the tiers again with `nostrain tiers export`',
    data: { expected: schema, actual: slice.schema },
  });
}

/** Returns a folder that is itself a slice. Throws a ConfigError if it would be cut again. */
function ofSlice(
  folder: string,
  checkpointTier: number,
  { tier, strategy }: TierRequest,
): Omit<TierLoad, 'schema'> {
  if (strategy === 'universal' && tier > 0) {
    throw new ConfigError(
      'tiers/DoubleSlicing',
      `${folder} is already tier ${checkpointTier}: tier ${tier} would be cut out of it again`,
      {
        hint: 'name the folder of the full model, or --strategy auto',
        data: { checkpoint_tier: checkpointTier, requested: tier },
      },
    );
  }
  const taken = `${folder} is tier ${checkpointTier} and is used as it is`;
  const notice = tier === checkpointTier ? undefined : taken;
  return { folder, tier: checkpointTier, slicing: 0, verified: 0, notice };
}

async function manifestIn(folder: string): Promise<TierManifest | undefined> {
  const source = await folderOf(folder).open(MANIFEST);
  return source && readManifest(await readJson(source));
}

/** Returns the error about what a tier lacks to be loaded as a slice; undefined if nothing is missing. */
async function whyNot(
  folder: string,
  manifest: TierManifest | undefined,
  tier: number,
): Promise<ConfigError | undefined> {
  if (manifest === undefined) {
    const path = join(folder, MANIFEST);
    return new ConfigError('tiers/missing-file', `there is no ${path}`, {
      hint: 'create it with `nostrain tiers export`, or use --strategy auto',
      data: { path },
    });
  }
  const entry = manifest.tiers.find((each) => each.tier === tier);
  if (entry === undefined) {
    const available = manifest.tiers.map((each) => each.tier).sort((a, b) => a - b);
    return new ConfigError(
      'tiers/no-such-tier',
      `${join(folder, MANIFEST)} has no tier ${tier}; it has ${available.join(', ')}`,
      { hint: 'name one of those, or export it with `nostrain tiers export`', data: { available } },
    );
  }
  for (const path of [...manifest.common, ...entry.files]) {
    const at = join(folder, path);
    if ((await kindOf(at)) === 'file') continue;
    return new ConfigError('tiers/missing-file', `tier ${tier} lacks ${at}`, {
      hint: 'get that file too, or use --strategy auto',
      data: { path: at },
    });
  }
  return undefined;
}

async function verifiedSlice(
  folder: string,
  manifest: TierManifest,
  tier: number,
  options: HashOptions,
): Promise<TierLoad> {
  const { files: paths } = manifest.tiers.find((each) => each.tier === tier)!;
  const config = paths.find((path) => familyPath(path).file === 'config.json');
  if (config === undefined) throw lacks(tier, 'tiers/no-config', 'config.json');
  if (!paths.some((path) => path.endsWith('.safetensors'))) {
    throw lacks(tier, 'tiers/no-weights', 'file of weights');
  }
  const verified = await verify(folder, manifest, tier, options);
  const at = resolve(folder, dirname(config));
  const files = folderOf(at);
  const sliceConfig = await readConfig(files);
  const actual = tierOf(sliceConfig, at);
  if (actual.tier !== tier || actual.base !== manifest.base) {
    throw new ConfigError(
      'tiers/config',
      `config.json of ${at} is tier ${actual.tier} of ${actual.base}, and the manifest ` +
        `names tier ${tier} of ${manifest.base}`,
      { hint: 'export the tiers again with `nostrain tiers export`' },
    );
  }
  const schema = schemaHash(sliceConfig, await tensorNames(files), at);
  return { folder: at, tier, slicing: 0, schema, verified };
}

const lacks = (tier: number, code: string, what: string): ConfigError =>
  new ConfigError(code, `${MANIFEST} names no ${what} for tier ${tier}`, {
    hint: 'export the tiers again with `nostrain tiers export`',
  });

/** Verifies the hash of every file of a tier, and returns the number of files. */
async function verify(
  folder: string,
  { common, tiers, sha256 }: TierManifest,
  tier: number,
  options: HashOptions,
): Promise<number> {
  const { files } = tiers.find((each) => each.tier === tier)!;
  const paths = [...new Set([...common, ...files])];
  for (const path of paths) {
    await assertInFamily(folder, path);
    const [hashed] = await hashFiles(folder, [path], options);
    const [expected, actual] = [sha256.get(path), hashed!.sha256];
    if (actual === expected) continue;
    throw new ConfigError(
      'tiers/altered',
      `${join(folder, path)} does not match the manifest: sha256 ${actual}, ` +
        `expected ${expected}`,
      { hint: 'get that file again', data: { path, expected, actual } },
    );
  }
  return paths.length;
}

/** Throws a ConfigError if a file is a symbolic link out of the model's folders. */
async function assertInFamily(folder: string, path: string): Promise<void> {
  const { folder: beside, file } = familyPath(path);
  const home = await realpath(folder);
  const [expected, real] = [join(home, beside, file), await realpath(join(folder, path))];
  if (real === expected) return;
  throw new ConfigError(
    'tiers/InvalidManifestPath',
    `${path} of ${folder} is a link to ${real}, outside of the model's folders`,
    { hint: 'replace the link by the file', data: { path } },
  );
}
