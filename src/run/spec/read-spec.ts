/**
 * A run spec out of any value: each field is read by its table, and what is unknown, missing or at odds with another field is named by its
 * path.
 */
import { ConfigError } from '../../base/errors.ts';
import { fields } from '../options.ts';
import { removedFeatures } from '../removed.ts';
import { type SharedName, sharedNames } from '../settings.ts';
import { assertConsistent } from './exclusions.ts';
import { type FeatureName, type FeatureTable, features, ownedSpecFields } from './features.ts';
import type { RunSpec } from './run-spec.ts';
import {
  isObject,
  memberOf,
  readFields,
  readGroup,
  readVariant,
  refuseUnknown,
  type Untyped,
  wrong,
} from './spec-readers.ts';
import { evaluationFields, groupFields, plainFields, variantTags } from './spec-table.ts';

/** The format this program reads and writes. */
export const FORMAT_VERSION = 2;

/** The training settings a spec holds. */
export const trainingFields = Object.fromEntries(
  sharedNames.map((name) => [name, fields[name]]),
) as Pick<typeof fields, SharedName>;

/** Every name on the top level that is not a feature's. */
const topNames = [
  'version',
  'features',
  ...Object.keys(plainFields),
  'training',
  'evaluation',
  ...Object.keys(groupFields),
  ...Object.keys(variantTags),
];

/** The spec that a complete document is. Throws a `ConfigError` with the path and the accepted form. */
export function readSpec(value: unknown, table: FeatureTable = features): RunSpec {
  if (!isObject(value)) throw wrong('the spec', value, 'an object');
  refuseOtherVersion(memberOf(value, 'version', '', String(FORMAT_VERSION)));
  const names = readFeatureNames(memberOf(value, 'features', '', FEATURES), table);
  const owned = ownedSpecFields(table);
  const isFree = (name: string) => owned.every((each) => each.name !== name);
  const own = owned.filter(({ feature }) => names.includes(feature));
  refuseOfOtherFeature(value, table, names);
  refuseUnknown(value, [...topNames.filter(isFree), ...own.map(({ name }) => name)], '');
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

/** A spec of another version is refused with what to do, before anything else in it is looked at. */
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

/** A field of a feature that the spec does not name. */
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

/** The fields of all features: what the spec says where it names them, else what their absence means. */
function readOwned(value: Untyped, table: FeatureTable, names: readonly string[]): Untyped {
  const read = ownedSpecFields(table).map(({ name, feature, field }) => {
    if (!names.includes(feature)) return [name, field.absent] as const;
    memberOf(value, name, '', `said where features names ${feature}`);
    const said = field.read(value, name);
    if (JSON.stringify(said) !== JSON.stringify(field.absent)) return [name, said] as const;
    throw wrong(name, said, `something else where features names ${feature}`);
  });
  return Object.fromEntries(read);
}

/** The spec in a JSON text; throws as `readSpec` does. */
export function parseRunSpec(text: string, from = 'the spec'): RunSpec {
  try {
    return readSpec(JSON.parse(text));
  } catch (error) {
    throw error instanceof SyntaxError ? notJson(from, error) : error;
  }
}

const notJson = (from: string, cause: SyntaxError): ConfigError =>
  new ConfigError('spec/json', `${from} is not JSON`, {
    hint: '`nostrain run create` writes one',
    cause,
  });
