/**
 * What the workers of a run without a spec must have in common, as their heartbeats carry it, and by which flags two of them differ.
 * Runs with a spec need none of it: the spec is the agreement.
 */
import { toHex } from '../base/bytes.ts';
import { canonicalJson, type Json } from '../base/canonical-json.ts';
import { hashFields } from '../base/hash.ts';
import type { Digest } from './ids.ts';
import { presets } from './presets.ts';
import { fields, type Settings, type SharedName, sharedNames, writeSettings } from './settings.ts';

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

/** A longer value is left out: the digest tells that it differs. */
const LONGEST_VALUE = 96;

/** Settings as text, by name. */
const textsOf = (settings: Parameters<typeof writeSettings>[0]): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(writeSettings(settings)).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : canonicalJson(value as Json),
    ]),
  );

/** The terms of a worker with these settings. */
export function termsOf(settings: Settings): Terms {
  const texts = textsOf(settings);
  const usual = textsOf(presets[settings.model as keyof typeof presets] ?? {});
  const shared = sharedNames.map((name): [SharedName, string] => [name, texts.get(name) ?? '']);
  const asked = shared.filter(([name, text]) => name === 'model' || text !== usual.get(name));
  return {
    settings: toHex(hashFields('nostrain/terms', canonicalJson(Object.fromEntries(shared)))),
    asked: asked
      .filter(([, text]) => text.length <= LONGEST_VALUE)
      .map(([name, text]) => `${name}=${text}`)
      .sort(),
    shard: texts.get('shard') ?? '',
  };
}

/** The shared settings in which they differ, in the order of the settings; empty where nothing says which ones those are. */
export function differencesOf(ours: Terms, theirs: Terms): readonly Difference[] {
  const [mine, others] = [valuesOf(ours), valuesOf(theirs)];
  if (mine.get('model') !== others.get('model')) return [differ('model', mine, others)];
  return sharedNames
    .filter((name) => mine.has(name) || others.has(name))
    .filter((name) => mine.get(name) !== others.get(name))
    .map((name) => differ(name, mine, others));
}

const valuesOf = ({ asked }: Terms): ReadonlyMap<string, string> =>
  new Map(asked.map((pair) => [nameIn(pair), pair.slice(nameIn(pair).length + 1)]));

const nameIn = (pair: string): string => pair.slice(0, pair.indexOf('='));

type Values = ReadonlyMap<string, string>;

function differ(name: SharedName, mine: Values, others: Values): Difference {
  const model = mine.get('model') as keyof typeof presets;
  const usual = textsOf(presets[model] ?? {}).get(name) ?? '?';
  const [ours = usual, theirs = usual] = [mine.get(name), others.get(name)];
  return { name: wordsOf(name), flag: fields[name].flag.split(' ')[0]!, ours, theirs };
}

/** `inner steps` of `innerSteps`. */
const wordsOf = (name: string): string => name.replace(/[A-Z]/g, (c) => ` ${c.toLowerCase()}`);
