/** Tiers of a published model in folders beside it: exports them with a manifest; finds and verifies one to load. */

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
import { kindOf, writeAtomically } from '../files/atomic-file.ts';
import { assertFree, folderOf, hashFiles, writeFolder } from './model-files.ts';

const CONFIG = 'config.json';
/** What a model brings beside its shape and its weights, the same for all tiers. */
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

export interface ExportOptions {
  readonly signal: AbortSignal;
  onFolder?(folder: string, bytes: number): void;
}

/** Where a tier of the model in a folder lies. */
export const tierFolder = (source: string, tier: number): string =>
  join(dirname(resolve(source)), `${basename(resolve(source))}-tier${tier}`);

/** Returns the manifest it wrote. Throws a ConfigError before writing if a tier is impossible or exists. */
export async function exportTiers(
  source: string,
  tiers: readonly number[],
  { signal, onFolder }: ExportOptions,
): Promise<TierManifest> {
  const files = folderOf(source);
  const config = await readConfig(files);
  const full = tierOf(config, source);
  if (full.tier > 0) {
    const message = `${source} is tier ${full.tier} of a model ${full.base} wide already`;
    const hint = 'cut tiers out of the full model';
    throw new ConfigError('tiers/already-sliced', message, { hint, data: { ...full } });
  }
  const wanted = [...new Set(tiers)].sort((a, b) => a - b);
  for (const tier of wanted) widthAt(full.base, tier, 'intermediate_size');
  for (const tier of wanted) await assertFree(tierFolder(source, tier));
  const common = await commonFiles(source, files);
  // every refusal comes before the first file
  const planned = await Promise.all(
    wanted.map(async (tier) => {
      const at = { tier, base: full.base };
      const weights = await cutWeights(files, at);
      return { tier, own: [jsonFile(CONFIG, configAt(config, at)), ...weights] };
    }),
  );
  for (const { tier, own } of planned) {
    const folder = tierFolder(source, tier);
    const bytes = await writeFolder(folder, [...own, ...common], { signal });
    onFolder?.(folder, bytes);
  }
  const names = await weightFiles(files);
  const universal = [CONFIG, ...names, ...(names[0] === SINGLE ? [] : [INDEX])];
  const entries = [
    { tier: 0, folder: '', names: universal },
    ...planned.map(({ tier, own }) => {
      const folder = `../${basename(tierFolder(source, tier))}`;
      return { tier, folder, names: own.map(({ name }) => name) };
    }),
  ];
  const sha256 = new Map<string, string>();
  const hashed = async (folder: string, files: readonly string[]) => {
    const found = await hashFiles(join(source, folder), files, signal);
    const paths = found.map(({ name }) => (folder === '' ? name : `${folder}/${name}`));
    for (const [i, path] of paths.entries()) sha256.set(path, found[i]!.sha256);
    return paths;
  };
  const shared = await hashed(
    '',
    common.map(({ name }) => name),
  );
  const described: ManifestTier[] = [];
  for (const { tier, folder, names: own } of entries) {
    const width = widthAt(full.base, tier, 'intermediate_size');
    described.push({ tier, width, files: await hashed(folder, own) });
  }
  const manifest = { base: full.base, common: shared, tiers: described, sha256 };
  const text = `${JSON.stringify(writeManifest(manifest), null, 2)}\n`;
  await writeAtomically(join(source, MANIFEST), utf8(text));
  return manifest;
}

/** The config of a model's folder. Throws a `ConfigError` where there is none. */
async function readConfig(files: ModelFiles): Promise<Config> {
  const source = await files.open(CONFIG);
  if (source !== undefined) return (await readJson(source)) as Config;
  throw new ConfigError('tiers/no-config', `${files.name} has no ${CONFIG}`, {
    hint: 'name the folder of a model as transformers loads it',
  });
}

async function commonFiles(source: string, files: ModelFiles): Promise<readonly OutFile[]> {
  const there = new Set(await readdir(source));
  const found: OutFile[] = [];
  for (const name of COMMON) {
    const bytes = there.has(name) ? await files.open(name) : undefined;
    if (bytes === undefined) continue;
    found.push({
      name,
      async *pieces() {
        yield await bytes.read(0, bytes.size);
      },
    });
  }
  return found;
}

export interface TierLoad {
  readonly folder: string;
  readonly tier: number;
  /** How often their width is still to be halved. */
  readonly slicing: number;
  /** The same for all tiers of one model. */
  readonly schema: string;
  /** Files that were held against their hashes. */
  readonly verified: number;
  /** Why it is not what was asked for first. */
  readonly notice?: string | undefined;
}

interface TierRequest {
  readonly tier: number;
  readonly strategy: TierStrategy;
  readonly signal: AbortSignal;
}

/** Throws a `ConfigError` that says which file is missing, changed or not to be read. */
export async function findTier(folder: string, wanted: TierRequest): Promise<TierLoad> {
  const { tier, strategy, signal } = wanted;
  const files = folderOf(folder);
  const config = await readConfig(files);
  const own = tierOf(config, folder);
  const schema = schemaHash(config, await tensorNames(files), folder);
  if (own.tier > 0) return { ...ofSlice(folder, own.tier, wanted), schema };
  const manifest = await manifestIn(folder);
  const full = async (notice?: string): Promise<TierLoad> => ({
    folder,
    tier: 0,
    slicing: tier,
    schema,
    notice,
    verified: manifest?.tiers.some((each) => each.tier === 0)
      ? await verify(folder, manifest, 0, signal)
      : 0,
  });
  if (tier === 0 || strategy === 'universal') return full();
  const lacking = await whyNot(folder, manifest, tier);
  if (lacking !== undefined) {
    if (strategy === 'sliced') throw lacking;
    return full(`${lacking.message}: the full model is loaded instead`);
  }
  const slice = await verifiedSlice(folder, manifest!, tier, signal);
  if (slice.schema === schema) return slice;
  throw new ConfigError('tiers/SchemaMismatch', `${slice.folder} is a tier of another model`, {
    hint: 'export the tiers again: `nostrain tiers export`',
    data: { expected: schema, actual: slice.schema },
  });
}

/** A folder that is a slice itself is taken as it is, once. */
function ofSlice(
  folder: string,
  checkpointTier: number,
  { tier, strategy }: TierRequest,
): Omit<TierLoad, 'schema'> {
  if (strategy === 'universal' && tier > 0) {
    throw new ConfigError(
      'tiers/DoubleSlicing',
      `${folder} is tier ${checkpointTier} already: tier ${tier} of it would be cut twice`,
      {
        hint: 'name the folder of the full model, or --strategy auto',
        data: { checkpoint_tier: checkpointTier, requested: tier },
      },
    );
  }
  const taken = `${folder} is tier ${checkpointTier} and is taken as it is`;
  const notice = tier === checkpointTier ? undefined : taken;
  return { folder, tier: checkpointTier, slicing: 0, verified: 0, notice };
}

async function manifestIn(folder: string): Promise<TierManifest | undefined> {
  const source = await folderOf(folder).open(MANIFEST);
  return source && readManifest(await readJson(source));
}

/** What a tier lacks to be loaded by itself; undefined where nothing is missing. */
async function whyNot(
  folder: string,
  manifest: TierManifest | undefined,
  tier: number,
): Promise<ConfigError | undefined> {
  if (manifest === undefined) {
    const path = join(folder, MANIFEST);
    return new ConfigError('tiers/missing-file', `there is no ${path}`, {
      hint: 'make it: `nostrain tiers export`, or use --strategy auto',
      data: { path },
    });
  }
  const found = manifest.tiers.find((each) => each.tier === tier);
  if (found === undefined) {
    const available = manifest.tiers.map((each) => each.tier).sort((a, b) => a - b);
    return new ConfigError(
      'tiers/no-such-tier',
      `${join(folder, MANIFEST)} has no tier ${tier}; it has ${available.join(', ')}`,
      { hint: 'ask for one of those, or export it: `nostrain tiers export`', data: { available } },
    );
  }
  for (const path of [...manifest.common, ...found.files]) {
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
  signal: AbortSignal,
): Promise<TierLoad> {
  const { files: paths } = manifest.tiers.find((each) => each.tier === tier)!;
  const config = paths.find((path) => familyPath(path).file === 'config.json');
  if (config === undefined) throw lacks(tier, 'tiers/no-config', 'config.json');
  if (!paths.some((path) => path.endsWith('.safetensors'))) {
    throw lacks(tier, 'tiers/no-weights', 'file of weights');
  }
  const verified = await verify(folder, manifest, tier, signal);
  const at = resolve(folder, dirname(config));
  const files = folderOf(at);
  const said = await readConfig(files);
  const own = tierOf(said, at);
  if (own.tier !== tier || own.base !== manifest.base) {
    throw new ConfigError(
      'tiers/config',
      `config.json of ${at} is of tier ${own.tier} of ${own.base}, and the manifest ` +
        `says ${tier} of ${manifest.base}`,
      { hint: 'export the tiers again: `nostrain tiers export`' },
    );
  }
  const schema = schemaHash(said, await tensorNames(files), at);
  return { folder: at, tier, slicing: 0, schema, verified };
}

const lacks = (tier: number, code: string, what: string): ConfigError =>
  new ConfigError(code, `${MANIFEST} names no ${what} for tier ${tier}`, {
    hint: 'export the tiers again: `nostrain tiers export`',
  });

/** Holds every file of a tier against its hash; returns how many they are. */
async function verify(
  folder: string,
  { common, tiers, sha256 }: TierManifest,
  tier: number,
  signal: AbortSignal,
): Promise<number> {
  const { files } = tiers.find((each) => each.tier === tier)!;
  const paths = [...new Set([...common, ...files])];
  for (const path of paths) {
    await assertInFamily(folder, path);
    const [found] = await hashFiles(folder, [path], signal);
    const [expected, actual] = [sha256.get(path), found!.sha256];
    if (actual === expected) continue;
    throw new ConfigError(
      'tiers/altered',
      `${join(folder, path)} is not what the manifest names: sha256 ${actual}, ` +
        `expected ${expected}`,
      { hint: 'get that file again', data: { path, expected, actual } },
    );
  }
  return paths.length;
}

/** A link may lead anywhere, whatever its path says. */
async function assertInFamily(folder: string, path: string): Promise<void> {
  const { folder: beside, file } = familyPath(path);
  const home = await realpath(folder);
  const [expected, real] = [join(home, beside, file), await realpath(join(folder, path))];
  if (real === expected) return;
  throw new ConfigError(
    'tiers/InvalidManifestPath',
    `${path} of ${folder} is a link to ${real}, out of the model's folder and its tiers`,
    { hint: 'put the file itself there', data: { path } },
  );
}
