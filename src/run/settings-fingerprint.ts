/**
 * The settings fingerprint: in a run without a spec, each heartbeat carries a digest of the settings that all workers
 * must share, and this file names the flags in which two workers differ. In a run with a spec, the spec is the
 * agreement.
 */
import { toHex } from '../base/bytes.ts';
import { canonicalJson, type Json } from '../base/canonical-json.ts';
import { hashFields } from '../base/hash.ts';
import { runDataOf } from './data-forms.ts';
import type { Digest } from './ids.ts';
import { fields } from './options.ts';
import {
  adapterNames,
  agreedNames,
  localStepSettings,
  ruleSettings,
  type SettingName,
  type Settings,
  sharedNames,
  spell,
  writeSettings,
} from './settings.ts';
import { presets } from './spec/presets.ts';
import { defaultsOf } from './spec/spec-table.ts';
import { type BaseIdentity, hashBase } from './spec/start.ts';

export interface SettingsFingerprint {
  /** Digest of all settings that every worker must share. */
  readonly settings: Digest;
  /** The model, and the shared settings that differ from its preset, as `name=value`, ascending. */
  readonly nonDefault: readonly string[];
  /** The worker's part of the data, in the form of `--shard`: `K/N`. */
  readonly shard: string;
}

/** A setting in which two workers differ. */
export interface Difference {
  readonly name: string;
  readonly flag: string;
  readonly ours: string;
  readonly theirs: string;
}

/** Maximum length of a value with its equals sign. A longer one is left out; the digest still shows that it differs. */
const LONGEST_VALUE = 97;

/** Printable ASCII. An entry with any other character is left out. */
const PLAIN = /^[ -~]*$/;

/** Name of the entries for the files of a base model. */
const BASE = 'base';
const TOKENIZER = 'the tokenizer';
const MOST_FILES = 16;

/** Settings as text, by name. */
const textsOf = (settings: Parameters<typeof writeSettings>[0]): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(writeSettings(settings)).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : canonicalJson(value as Json),
    ]),
  );

/** Settings that every run of a model shares: those of training, of its base model, and of the form of its data. */
const namesFor = (model: string | undefined): readonly SettingName[] => [
  ...sharedNames,
  ...(model === 'pretrained' ? adapterNames : []),
  ...(model === undefined ? [] : runDataOf({ model }).input),
];

/** Settings that are shared only if a run uses them. */
function usedNames(settings: Settings): readonly SettingName[] {
  const texts = textsOf(settings);
  const isUsual = (name: SettingName) => texts.get(name) === defaults.get(name);
  const rule = ruleSettings.every(isUsual) ? [] : ruleSettings;
  const localStepNames = isUsual('innerSeconds') ? [] : localStepSettings;
  return [...agreedNames.filter((name) => !isUsual(name)), ...rule, ...localStepNames];
}

const defaults = textsOf(defaultsOf(fields));

/** Returns the fingerprint of a worker with these settings and, if it trains a published model, this base. */
export function settingsFingerprint(settings: Settings, base?: BaseIdentity): SettingsFingerprint {
  const texts = textsOf(settings);
  const usual = textsOf(presets[settings.model]);
  const names = [...namesFor(settings.model), ...usedNames(settings)];
  const shared = names.map((name) => [name, texts.get(name) ?? ''] as const);
  const nonDefault = shared.filter(([name, text]) => name === 'model' || text !== usual.get(name));
  const all = {
    ...Object.fromEntries(shared),
    // removed setting; older versions still hash it
    ...(settings.model === 'pretrained' && { adapterTrain: 'both' }),
    ...(base && { base: hashBase(base) }),
  };
  return {
    settings: toHex(hashFields('nostrain/terms', canonicalJson(all))),
    nonDefault: [
      ...nonDefault.map(([name, text]) => `${name}=${text}`),
      ...(base ? baseEntries(base) : []),
    ]
      .filter((pair) => pair.length - nameIn(pair).length <= LONGEST_VALUE && PLAIN.test(pair))
      .sort(),
    shard: texts.get('shard') ?? '',
  };
}

/** One entry per file of the base, with half of its SHA-256; no entries if the base has more than MOST_FILES files. */
const baseEntries = ({ files, tokenizerSha256 }: BaseIdentity): readonly string[] =>
  files.length > MOST_FILES
    ? []
    : [
        ...files.map(({ name, sha256 }) => `${BASE}=${sha256.slice(0, 32)} ${name}`),
        `${BASE}=${tokenizerSha256.slice(0, 32)} ${TOKENIZER}`,
      ];

/** Returns the names of the base files that differ, or the tokenizer; empty if a fingerprint lists no files. */
export function differentFiles(
  ours: SettingsFingerprint,
  theirs: SettingsFingerprint,
): readonly string[] {
  const [mine, others] = [filesIn(ours), filesIn(theirs)];
  if (mine.size === 0 || others.size === 0) return [];
  const names = [...new Set([...mine.keys(), ...others.keys()])].sort();
  return names.filter((name) => mine.get(name) !== others.get(name));
}

const filesIn = ({ nonDefault }: SettingsFingerprint): ReadonlyMap<string, string> =>
  new Map(
    nonDefault
      .filter((pair) => nameIn(pair) === BASE)
      .map((pair) => [pair.slice(BASE.length + 34), pair.slice(BASE.length + 1, BASE.length + 33)]),
  );

/** Returns the shared settings that differ, in the order of the option table; empty if not listed. */
export function differencesOf(
  ours: SettingsFingerprint,
  theirs: SettingsFingerprint,
): readonly Difference[] {
  const [mine, others] = [valuesOf(ours), valuesOf(theirs)];
  if (mine.get('model') !== others.get('model')) return [differ('model', mine, others)];
  return [...namesFor(mine.get('model')), ...ruleSettings, ...localStepSettings, ...agreedNames]
    .filter((name) => mine.has(name) || others.has(name))
    .filter((name) => mine.get(name) !== others.get(name))
    .map((name) => differ(name, mine, others));
}

const valuesOf = ({ nonDefault }: SettingsFingerprint): ReadonlyMap<string, string> =>
  new Map(nonDefault.map((pair) => [nameIn(pair), pair.slice(nameIn(pair).length + 1)]));

const nameIn = (pair: string): string => pair.slice(0, pair.indexOf('='));

type Values = ReadonlyMap<string, string>;

function differ(name: SettingName, mine: Values, others: Values): Difference {
  const model = mine.get('model') as keyof typeof presets;
  const usual = textsOf(presets[model] ?? {}).get(name) ?? '?';
  const [ours = usual, theirs = usual] = [mine.get(name), others.get(name)];
  return { name: wordsOf(name), flag: spell(name), ours, theirs };
}

/** Turns `innerSteps` into `inner steps`. */
const wordsOf = (name: string): string => name.replace(/[A-Z]/g, (c) => ` ${c.toLowerCase()}`);
