/**
 * What the workers of a run without a spec must have in common, as their heartbeats carry it, and by which flags two
 * of them differ. Runs with a spec need none of it: the spec is the agreement.
 */
import { toHex } from '../base/bytes.ts';
import { canonicalJson, type Json } from '../base/canonical-json.ts';
import { hashFields } from '../base/hash.ts';
import { runDataOf } from './data-forms.ts';
import type { Group } from './field.ts';
import type { Digest } from './ids.ts';
import { fields } from './options.ts';
import {
  adapterNames,
  agreedNames,
  paceSettings,
  ruleSettings,
  type SettingName,
  type Settings,
  sharedNames,
  spell,
  writeSettings,
} from './settings.ts';
import { presets } from './spec/presets.ts';
import { type BaseIdentity, hashBase } from './spec/start.ts';

export interface Terms {
  /** Of all settings that must be the same for everybody. */
  readonly settings: Digest;
  /** Those that are not the usual ones of the model, and the model, as `name=value`, ascending. */
  readonly asked: readonly string[];
  /** Which part of the data is the worker's own, as `--shard` says it. */
  readonly shard: string;
}

/** A setting in which two workers differ. */
export interface Difference {
  readonly name: string;
  readonly flag: string;
  readonly ours: string;
  readonly theirs: string;
}

/** A longer value is left out, with its equals sign: the digest tells that it differs. */
const LONGEST_VALUE = 97;

/** What other characters are in is left out as well. */
const PLAIN = /^[ -~]*$/;

/** What files of a base stand under among the settings of heartbeats. */
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

/** Settings that count for every run of a model: those of training, of its base, and of the form of its data. */
const namesFor = (model: string | undefined): readonly SettingName[] => [
  ...sharedNames,
  ...(model === 'pretrained' ? adapterNames : []),
  ...(model === undefined ? [] : runDataOf({ model }).input),
];

/** Settings that count only where a run makes use of them. */
function usedNames(settings: Settings): readonly SettingName[] {
  const isUsual = (name: SettingName) => settings[name] === usualOf(name);
  const rule = ruleSettings.every(isUsual) ? [] : ruleSettings;
  const pace = isUsual('innerSeconds') ? [] : paceSettings;
  return [...agreedNames.filter((name) => !isUsual(name)), ...rule, ...pace];
}

const usualOf = (name: SettingName): unknown => (fields as Group)[name]!.default;

/** The terms of a worker with these settings, and with this base where it has one. */
export function termsOf(settings: Settings, base?: BaseIdentity): Terms {
  const texts = textsOf(settings);
  const usual = textsOf(presets[settings.model]);
  const names = [...namesFor(settings.model), ...usedNames(settings)];
  const shared = names.map((name) => [name, texts.get(name) ?? ''] as const);
  const asked = shared.filter(([name, text]) => name === 'model' || text !== usual.get(name));
  const all = {
    ...Object.fromEntries(shared),
    // was a setting once, and counts in the hash of workers that still have it
    ...(settings.model === 'pretrained' && { adapterTrain: 'both' }),
    ...(base && { base: hashBase(base) }),
  };
  return {
    settings: toHex(hashFields('nostrain/terms', canonicalJson(all))),
    asked: [...asked.map(([name, text]) => `${name}=${text}`), ...(base ? baseTerms(base) : [])]
      .filter((pair) => pair.length - nameIn(pair).length <= LONGEST_VALUE && PLAIN.test(pair))
      .sort(),
    shard: texts.get('shard') ?? '',
  };
}

/** A base in terms: of each file its name and the first half of its hash; of more files than fit, nothing. */
const baseTerms = ({ files, tokenizerSha256 }: BaseIdentity): readonly string[] =>
  files.length > MOST_FILES
    ? []
    : [
        ...files.map(({ name, sha256 }) => `${BASE}=${sha256.slice(0, 32)} ${name}`),
        `${BASE}=${tokenizerSha256.slice(0, 32)} ${TOKENIZER}`,
      ];

/** In words, what of their bases differs: names of files, or the tokenizer; empty where nothing says which. */
export function differentFiles(ours: Terms, theirs: Terms): readonly string[] {
  const [mine, others] = [filesIn(ours), filesIn(theirs)];
  if (mine.size === 0 || others.size === 0) return [];
  const names = [...new Set([...mine.keys(), ...others.keys()])].sort();
  return names.filter((name) => mine.get(name) !== others.get(name));
}

const filesIn = ({ asked }: Terms): ReadonlyMap<string, string> =>
  new Map(
    asked
      .filter((pair) => nameIn(pair) === BASE)
      .map((pair) => [pair.slice(BASE.length + 34), pair.slice(BASE.length + 1, BASE.length + 33)]),
  );

/** The shared settings in which they differ, in the order of the table; empty where the terms do not say which. */
export function differencesOf(ours: Terms, theirs: Terms): readonly Difference[] {
  const [mine, others] = [valuesOf(ours), valuesOf(theirs)];
  if (mine.get('model') !== others.get('model')) return [differ('model', mine, others)];
  return [...namesFor(mine.get('model')), ...ruleSettings, ...paceSettings, ...agreedNames]
    .filter((name) => mine.has(name) || others.has(name))
    .filter((name) => mine.get(name) !== others.get(name))
    .map((name) => differ(name, mine, others));
}

const valuesOf = ({ asked }: Terms): ReadonlyMap<string, string> =>
  new Map(asked.map((pair) => [nameIn(pair), pair.slice(nameIn(pair).length + 1)]));

const nameIn = (pair: string): string => pair.slice(0, pair.indexOf('='));

type Values = ReadonlyMap<string, string>;

function differ(name: SettingName, mine: Values, others: Values): Difference {
  const model = mine.get('model') as keyof typeof presets;
  const usual = textsOf(presets[model] ?? {}).get(name) ?? '?';
  const [ours = usual, theirs = usual] = [mine.get(name), others.get(name)];
  return { name: wordsOf(name), flag: spell(name), ours, theirs };
}

/** `inner steps` of `innerSteps`. */
const wordsOf = (name: string): string => name.replace(/[A-Z]/g, (c) => ` ${c.toLowerCase()}`);
