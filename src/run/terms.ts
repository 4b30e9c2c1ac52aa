/**
 * What the workers of a run without a spec must have in common, as their heartbeats carry it, and by which flags two of them differ.
 * Runs with a spec need none of it: the spec is the agreement.
 */
import { toHex } from '../base/bytes.ts';
import { canonicalJson, type Json } from '../base/canonical-json.ts';
import { hashFields } from '../base/hash.ts';
import { usualAggregation } from './aggregation.ts';
import { type InputName, runDataOf } from './data-forms.ts';
import type { Digest } from './ids.ts';
import { paceSettings } from './pace.ts';
import {
  type AdapterName,
  adapterNames,
  fields,
  ruleSettings,
  type Settings,
  type SharedName,
  sharedNames,
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

type TermName =
  | SharedName
  | AdapterName
  | InputName
  | (typeof ruleSettings)[number]
  | (typeof paceSettings)[number]
  | TierName;

type TierName = 'tiers' | 'helperRotation';

/** Those of the settings that count: what is trained of a base where there is one. */
const namesFor = (model: string | undefined): readonly TermName[] => [
  ...sharedNames,
  ...(model === 'pretrained' ? adapterNames : []),
  ...(model === undefined ? [] : runDataOf({ model }).input),
];

/** The terms of a worker with these settings, and with this base where it has one. */
export function termsOf(settings: Settings, base?: BaseIdentity): Terms {
  const texts = textsOf(settings);
  const usual = textsOf(presets[settings.model]);
  const tiers = (['tiers', 'helperRotation'] as const).filter((name) => settings[name] > 0);
  const pace = settings.innerSeconds > 0 ? paceSettings : [];
  const isUsual = ruleSettings.every((name) => settings[name] === usualAggregation[name]);
  const rule = isUsual ? [] : ruleSettings;
  const names = [...namesFor(settings.model), ...tiers, ...rule, ...pace];
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

/** The shared settings in which they differ, in the order of the settings; empty where nothing says which ones those are. */
export function differencesOf(ours: Terms, theirs: Terms): readonly Difference[] {
  const [mine, others] = [valuesOf(ours), valuesOf(theirs)];
  if (mine.get('model') !== others.get('model')) return [differ('model', mine, others)];
  return [
    ...namesFor(mine.get('model')),
    ...ruleSettings,
    ...paceSettings,
    'tiers' as const,
    'helperRotation' as const,
  ]
    .filter((name) => mine.has(name) || others.has(name))
    .filter((name) => mine.get(name) !== others.get(name))
    .map((name) => differ(name, mine, others));
}

const valuesOf = ({ asked }: Terms): ReadonlyMap<string, string> =>
  new Map(asked.map((pair) => [nameIn(pair), pair.slice(nameIn(pair).length + 1)]));

const nameIn = (pair: string): string => pair.slice(0, pair.indexOf('='));

type Values = ReadonlyMap<string, string>;

function differ(name: TermName, mine: Values, others: Values): Difference {
  const model = mine.get('model') as keyof typeof presets;
  const usual = textsOf(presets[model] ?? {}).get(name) ?? '?';
  const [ours = usual, theirs = usual] = [mine.get(name), others.get(name)];
  return { name: wordsOf(name), flag: fields[name].flag.split(' ')[0]!, ours, theirs };
}

/** `inner steps` of `innerSteps`. */
const wordsOf = (name: string): string => name.replace(/[A-Z]/g, (c) => ` ${c.toLowerCase()}`);
