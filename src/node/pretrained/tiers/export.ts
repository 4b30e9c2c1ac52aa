/** Writes tiers of a model's folder into folders beside it, and the manifest that names the files of all of them with their hashes. */
import { readdir } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { utf8 } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import type { ModelFiles } from '../../../pretrained/byte-source.ts';
import { jsonFile, type OutFile } from '../../../pretrained/export/learned.ts';
import {
  MANIFEST,
  type Manifest,
  type ManifestTier,
  writeManifest,
} from '../../../pretrained/tiers/manifest.ts';
import { sliceWeights } from '../../../pretrained/tiers/slice.ts';
import {
  type CheckpointTier,
  type Config,
  configAt,
  tierOf,
  widthAt,
} from '../../../pretrained/tiers/tier.ts';
import { INDEX, readJson, SINGLE, weightFiles } from '../../../pretrained/weights.ts';
import { writeWhole } from '../../files/whole-file.ts';
import { folderOf, hashFiles } from '../folder.ts';
import { assertFree, writeFolder } from '../write-model.ts';

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
  /** A folder is finished. */
  onFolder?(folder: string, bytes: number): void;
}

/** Where a tier of the model in a folder lies. */
export const tierFolder = (source: string, tier: number): string =>
  join(dirname(resolve(source)), `${basename(resolve(source))}-tier${tier}`);

/** Returns the manifest that it wrote. Throws a `ConfigError` before anything is written where a tier cannot be, or is there. */
export async function exportTiers(
  source: string,
  tiers: readonly number[],
  { signal, onFolder }: ExportOptions,
): Promise<Manifest> {
  const files = folderOf(source);
  const config = await readConfig(files);
  const whole = tierOf(config, source);
  if (whole.tier > 0) throw alreadySliced(source, whole);
  const wanted = [...new Set(tiers)].sort((a, b) => a - b);
  for (const tier of wanted) widthAt(whole.base, tier, 'intermediate_size');
  for (const tier of wanted) await assertFree(tierFolder(source, tier));
  const common = await commonFiles(source, files);
  // every refusal comes before the first file
  const planned = await Promise.all(
    wanted.map(async (tier) => {
      const at = { tier, base: whole.base };
      const weights = await sliceWeights(files, at);
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
  const manifest = await describe(
    source,
    whole.base,
    entries,
    common.map(({ name }) => name),
    signal,
  );
  const text = `${JSON.stringify(writeManifest(manifest), null, 2)}\n`;
  await writeWhole(join(source, MANIFEST), utf8(text));
  return manifest;
}

interface Entry {
  readonly tier: number;
  readonly folder: string;
  readonly names: readonly string[];
}

async function describe(
  source: string,
  base: number,
  entries: readonly Entry[],
  common: readonly string[],
  signal: AbortSignal,
): Promise<Manifest> {
  const sha256 = new Map<string, string>();
  const add = async (folder: string, names: readonly string[]) => {
    const paths: string[] = [];
    for (const file of await hashFiles(join(source, folder), names, signal)) {
      const path = folder === '' ? file.name : `${folder}/${file.name}`;
      sha256.set(path, file.sha256);
      paths.push(path);
    }
    return paths;
  };
  const shared = await add('', common);
  const tiers: ManifestTier[] = [];
  for (const { tier, folder, names } of entries) {
    const width = widthAt(base, tier, 'intermediate_size');
    tiers.push({ tier, width, files: await add(folder, names) });
  }
  return { base, common: shared, tiers, sha256 };
}

/** The config of a model's folder. Throws a `ConfigError` where there is none. */
export async function readConfig(files: ModelFiles): Promise<Config> {
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

const alreadySliced = (source: string, { tier, base }: CheckpointTier): ConfigError =>
  new ConfigError(
    'tiers/already-sliced',
    `${source} is tier ${tier} of a model ${base} wide already`,
    { hint: 'cut tiers out of the whole model', data: { tier, base } },
  );
