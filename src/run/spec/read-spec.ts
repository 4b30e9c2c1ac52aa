/**
 * Reads a run spec from any document: fills in defaults, reads fields by their tables, reports invalid ones by path.
 */

import { ConfigError } from '../../base/errors.ts';
import { isObject, type Untyped } from '../../base/shape.ts';
import type { Group } from '../field.ts';
import { inputSettings } from '../input.ts';
import { fields } from '../options.ts';
import { removedFeatures, removedPackings, removedResiduals } from '../removed.ts';
import {
  completeSettings,
  namesIn,
  type PartialSettings,
  type SettingName,
  type Settings,
  type SharedName,
  sharedNames,
  writeSettings,
} from '../settings.ts';
import { assertConsistent } from './exclusions.ts';
import {
  type Feature,
  type FeatureName,
  type FeatureTable,
  features,
  ownedSpecFields,
} from './features.ts';
import { presets } from './presets.ts';
import { type RunSpec, runIdOf } from './run-spec.ts';
import {
  memberOf,
  readFields,
  readGroup,
  readVariant,
  refuseUnknown,
  wrong,
} from './spec-readers.ts';
import {
  defaultsOf,
  evaluationFields,
  groupFields,
  plainFields,
  specDefaults,
  variantFields,
  variantTags,
} from './spec-table.ts';

/** Version of the format that this program reads and writes. */
const FORMAT_VERSION = 2;

/** Training settings in a spec. */
export const trainingFields = Object.fromEntries(
  sharedNames.map((name) => [name, fields[name]]),
) as Pick<typeof fields, SharedName>;

/** Names on the top level that do not belong to a feature. */
const topNames = [
  'version',
  'features',
  ...Object.keys(plainFields),
  'training',
  'evaluation',
  ...Object.keys(groupFields),
  ...Object.keys(variantTags),
];

/** Reads a complete document as a spec. Throws a ConfigError with the path and the accepted form. */
export function readSpec(value: unknown, table: FeatureTable = features): RunSpec {
  if (!isObject(value)) throw wrong('the spec', value, 'an object');
  refuseOtherVersion(memberOf(value, 'version', '', String(FORMAT_VERSION)));
  const names = readFeatureNames(memberOf(value, 'features', '', FEATURES), table);
  const owned = ownedSpecFields(table);
  const isFree = (name: string) => owned.every((each) => each.name !== name);
  const named = owned.filter(({ feature }) => names.includes(feature));
  refuseOfOtherFeature(value, table, names);
  refuseUnknown(value, [...topNames.filter(isFree), ...named.map(({ name }) => name)], '');
  const evaluation = memberOf(value, 'evaluation', '', 'an object, or null');
  const free = Object.fromEntries(Object.entries(plainFields).filter(([name]) => isFree(name)));
  const spec = {
    version: FORMAT_VERSION,
    features: names as readonly FeatureName[],
    ...readFields(value, free, ''),
    training: readGroup(value, 'training', trainingFields),
    committee: readGroup(value, 'committee', groupFields.committee),
    timing: readGroup(value, 'timing', groupFields.timing),
    limits: readGroup(value, 'limits', groupFields.limits),
    checkpoint: readGroup(value, 'checkpoint', groupFields.checkpoint),
    data: readVariant(value, 'data'),
    admission: readVariant(value, 'admission'),
    evaluation: evaluation === null ? null : readGroup(value, 'evaluation', evaluationFields),
    ...readOwned(value, table, names),
  } as RunSpec;
  assertConsistent(spec);
  return spec;
}

/** Refuses a spec of another version before anything else in it is read. */
function refuseOtherVersion(version: unknown): void {
  if (version === FORMAT_VERSION) return;
  if (typeof version !== 'number') throw wrong('version', version, String(FORMAT_VERSION));
  const isOld = version < FORMAT_VERSION;
  throw new ConfigError(
    'spec/version',
    `this run uses format version ${version}; this program reads version ${FORMAT_VERSION}`,
    {
      hint: isOld
        ? 'create a new run: `nostrain run create`'
        : 'install the latest nostrain: `npm install -g nostrain@latest`',
      data: { at: 'version' },
    },
  );
}

const FEATURES = 'a list of feature names, ascending';

function readFeatureNames(value: unknown, table: FeatureTable): readonly string[] {
  if (!Array.isArray(value)) throw wrong('features', value, FEATURES);
  const names: readonly unknown[] = value;
  const unknown = names.find((name) => typeof name !== 'string' || !Object.hasOwn(table, name));
  if (unknown !== undefined) {
    throw new ConfigError(
      'spec/feature',
      `this run uses the feature ${JSON.stringify(unknown)}, which this program does not know`,
      {
        hint:
          removedFeatures.get(String(unknown)) ??
          `it knows ${Object.keys(table).sort().join(', ')}; a later nostrain may know more`,
        data: { at: 'features' },
      },
    );
  }
  const known = names as readonly string[];
  const isAscending = known.every((name, i) => i === 0 || known[i - 1]! < name);
  if (!isAscending) throw wrong('features', value, FEATURES);
  return known;
}

/** Refuses a field of a feature that the spec does not name. */
function refuseOfOtherFeature(value: Untyped, table: FeatureTable, names: readonly string[]): void {
  const other = ownedSpecFields(table).find(
    ({ name, feature }) => Object.hasOwn(value, name) && !names.includes(feature),
  );
  if (other === undefined) return;
  throw new ConfigError(
    'spec/unknown',
    `${other.name} is only there where features names ${other.feature}`,
    {
      hint: `add "${other.feature}" to features, or leave ${other.name} out`,
      data: { at: other.name },
    },
  );
}

/**
 * Returns the fields of all features: the value in the spec if it names the feature, otherwise the value of its
 * absence.
 */
function readOwned(value: Untyped, table: FeatureTable, names: readonly string[]): Untyped {
  const read = ownedSpecFields(table).map(({ name, feature, field }) => {
    if (!names.includes(feature)) return [name, field.absent] as const;
    memberOf(value, name, '', `present where features names ${feature}`);
    const member = field.read(value, name);
    if (JSON.stringify(member) !== JSON.stringify(field.absent)) return [name, member] as const;
    throw wrong(name, member, `something else where features names ${feature}`);
  });
  return Object.fromEntries(read);
}

/**
 * Parses a spec from JSON text. A removed packing or residual rule stays as it is: id, votes and roots of its run are
 * checked without decoding payloads. Throws like `readSpec`.
 */
export function parseRunSpec(text: string, from = 'the spec'): RunSpec {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value) || !isObject(value.training)) return readSpec(value);
    const { packing, residual } = value.training as RunSpec['training'];
    const old = {
      ...(removedPackings.has(packing) && { packing }),
      ...(removedResiduals.has(residual) && { residual }),
    };
    const instead = {
      ...(old.packing && { packing: 'int8' }),
      ...(old.residual && { residual: 'none' }),
    };
    const spec = readSpec({ ...value, training: { ...value.training, ...instead } });
    return { ...spec, training: { ...spec.training, ...old } };
  } catch (error) {
    throw error instanceof SyntaxError ? notJson(from, error) : error;
  }
}

const notJson = (from: string, cause: SyntaxError): ConfigError =>
  new ConfigError('spec/json', `${from} is not JSON`, {
    hint: '`nostrain run create` writes one',
    cause,
  });

type VariantName = keyof typeof variantTags;

/** Merges the document over what follows from its model, data and author, over the defaults. Checks nothing. */
export function completeDocument(document: Untyped, derived: Untyped): Untyped {
  const base = mergeObjects({ version: FORMAT_VERSION, features: [], ...specDefaults }, derived);
  const merged = mergeObjects(base, document);
  const complete: Record<string, unknown> = { ...merged };
  for (const [name, { tag }] of Object.entries(variantTags)) {
    const object = merged[name];
    if (!isObject(object)) continue;
    const variants: Readonly<Record<string, Group>> = variantFields[name as VariantName];
    complete[name] = { ...defaultsOf(variants[String(object[tag])] ?? {}), ...object };
  }
  return nameFeatures(complete);
}

/** Adds the features whose fields are set, and removes fields that have the value of their absence. */
function nameFeatures(complete: Untyped): Untyped {
  if (!Array.isArray(complete.features)) return complete;
  const names = new Set<unknown>(complete.features);
  const document: Record<string, unknown> = { ...complete };
  for (const { name, feature, field } of ownedSpecFields(features)) {
    const isSilent = JSON.stringify(document[name]) === JSON.stringify(field.absent);
    if (!isSilent && document[name] !== undefined) names.add(feature);
    if (isSilent && !names.has(feature)) delete document[name];
  }
  for (const [name, { isIn }] of Object.entries<Feature>(features)) {
    if (isIn?.(complete)) names.add(name);
  }
  return { ...document, features: [...names].sort() };
}

/** Merges objects member by member, one level deep, unless they are of different variants; `over` wins. */
function mergeObjects(under: Untyped, over: Untyped): Untyped {
  const merged: Record<string, unknown> = { ...under };
  for (const [name, value] of Object.entries(over)) {
    if (value === undefined) continue;
    const before = merged[name];
    const isMerged = isObject(before) && isObject(value) && isSameVariant(name, before, value);
    merged[name] = isMerged ? { ...before, ...value } : value;
  }
  return merged;
}

function isSameVariant(name: string, before: Untyped, value: Untyped): boolean {
  if (!Object.hasOwn(variantFields, name)) return true;
  const { tag } = variantTags[name as VariantName];
  return value[tag] === undefined || value[tag] === before[tag];
}

/** Returns the settings of a worker in a run; the spec overrides what the worker requests. */
export function settingsOf(spec: RunSpec, requested: PartialSettings): Settings {
  const { training, profile, timing, start, input, tiers, pace, mixture } = spec;
  return completeSettings(
    presets[training.model],
    { roundTimeout: timing.graceMaxMs / 1000 },
    requested,
    training,
    start?.adapter ?? {},
    inputSettings(input),
    pace,
    mixture,
    { run: runIdOf(spec), profile, tiers },
  );
}

/** A requested setting that differs from the spec. */
export interface Contradiction {
  readonly name: SettingName;
  /** Values as users type them. */
  readonly requested: string;
  readonly spec: string;
}

/** Returns all requested settings that differ from the spec. */
export function contradictions(
  spec: RunSpec,
  requested: PartialSettings,
): readonly Contradiction[] {
  const fixed = writeSettings({
    ...spec.training,
    ...spec.start?.adapter,
    ...inputSettings(spec.input),
    run: runIdOf(spec),
    profile: spec.profile,
  });
  const wanted = writeSettings(requested);
  return [...namesIn('training', 'adapter', 'input'), ...namesIn('name')].flatMap((name) => {
    const [a, b] = [JSON.stringify(wanted[name]), JSON.stringify(fixed[name])];
    return a === undefined || a === b ? [] : [{ name, requested: a, spec: b ?? 'nothing' }];
  });
}
