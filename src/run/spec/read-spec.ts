/**
 * A run spec out of any value: each field is read by its table, and what is unknown, missing or at odds with another field is named by its
 * path.
 */
import { ConfigError } from '../../base/errors.ts';
import { areNeeded } from '../chunked-files.ts';
import { formOf, runDataOf } from '../data-forms.ts';
import { paceRules } from '../pace.ts';
import { removedFeatures } from '../removed.ts';
import { fields, type SharedName, sharedNames } from '../settings.ts';
import { aggregationRules, assertTier, type SpecRule } from './aggregation-rules.ts';
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
import { tierRules } from './tier-rules.ts';

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

const hasBlocks = ({ training }: RunSpec): boolean =>
  formOf(training) !== 'rows' && training.model !== 'pretrained';

/** What `limits.weightCap` is when nobody says: the examples of a round, or fewer. */
export const weightCapOf = ({
  maxExamples,
  innerSteps,
  batchSize,
}: Pick<RunSpec['training'], 'maxExamples' | 'innerSteps' | 'batchSize'>): number =>
  maxExamples || innerSteps * batchSize;

/** Anybody may publish a spec: whoever looks at one must be able to lay its model out. */
const MOST = { width: 65_536, layers: 1024, heads: 1024, context: 65_536, ffn: 262_144 } as const;
const MOST_HIDDEN = 16;

const bounds: readonly SpecRule[] = Object.entries(MOST).map(([name, most]) => ({
  at: `training.${name}`,
  says: `it is at most ${most}`,
  holds: ({ training }) => training[name as keyof typeof MOST] <= most,
}));

/** All rules, in the order in which they are judged. */
export const specRules: readonly SpecRule[] = [
  ...bounds,
  {
    at: 'training.hidden',
    says: `it is at most ${MOST_HIDDEN} sizes of at most ${MOST.width}`,
    holds: ({ training: { hidden } }) =>
      hidden.length <= MOST_HIDDEN && hidden.every((size) => size <= MOST.width),
  },
  {
    at: 'dataFrom',
    says: 'there is none where data.kind is not corpus',
    holds: ({ data, dataFrom }) => dataFrom === '' || data.kind === 'corpus',
  },
  {
    at: 'files.each',
    says: 'each is the text of data, or a file of start by its name and hash',
    holds: ({ files, data, start }) =>
      files === null ||
      areNeeded(files, data.kind === 'corpus' ? data.sha256 : undefined, start?.files),
  },
  {
    at: 'training.model',
    says: 'it is pretrained exactly where features names start',
    holds: ({ training, start }) => (training.model === 'pretrained') === (start !== null),
  },
  {
    at: 'training.context',
    says: 'it is at most start.model.positions where the model has a table of positions',
    holds: ({ training, start }) =>
      start?.model.architecture !== 'gpt2' || training.context <= start.model.positions,
  },
  {
    at: 'training.width',
    says: 'it is a multiple of training.heads for a transformer of our own',
    holds: (spec) => !hasBlocks(spec) || spec.training.width % spec.training.heads === 0,
  },
  {
    at: 'input',
    says: 'it is there exactly for forecaster (form series) and vit (form images)',
    holds: ({ training, input }) =>
      (input?.form ?? null) === (runDataOf(training).input.length > 0 ? formOf(training) : null),
  },
  {
    at: 'input.patch',
    says: 'training.context, or input.pixels, is a multiple of it',
    holds: ({ training, input }) =>
      input === null ||
      (input.form === 'series' ? training.context : input.pixels) % input.patch === 0,
  },
  {
    at: 'founders',
    says: 'the author is one of them',
    holds: ({ founders, author }) => founders.includes(author),
  },
  {
    at: 'data.kind',
    says: 'it is corpus or own for a text model, made for linear and mlp, and any of them for forecaster and vit',
    holds: ({ training, data }) => runDataOf(training).kinds.includes(data.kind),
  },
  {
    at: 'evaluation',
    says: 'it is null unless data.kind is own: every other kind has a validation part of its own; and there where forecaster or vit train on own data, since it says which columns or classes there are',
    nearest: 'name a CSV or a folder of pictures with --evaluation',
    holds: ({ evaluation, data: { kind }, input }) =>
      evaluation === null ? kind !== 'own' || input === null : kind === 'own',
  },
  {
    at: 'committee.weights',
    says: 'it is equal where stake.source is none',
    holds: ({ committee, stake }) => committee.weights === 'equal' || stake.source !== 'none',
  },
  {
    at: 'committee.minStake',
    says: 'it is 0 where stake.source is none',
    holds: ({ committee, stake }) => committee.minStake === '0' || stake.source !== 'none',
  },
  {
    at: 'beacon.lagSeconds',
    says: 'it is more than twice timing.skewMs',
    holds: ({ beacon, timing }) =>
      beacon.kind === 'none' || beacon.lagSeconds * 1000 > 2 * timing.skewMs,
  },
  {
    at: 'timing.graceMinMs',
    says: 'it is at most timing.graceMaxMs',
    holds: ({ timing }) => timing.graceMinMs <= timing.graceMaxMs,
  },
  {
    at: 'absentRounds',
    says: 'it is at least liveRounds',
    holds: ({ absentRounds, liveRounds }) => absentRounds >= liveRounds,
  },
  {
    at: 'late',
    says: 'it is discard where training.owners is above 0 or training.fragments above 1: what comes late then moves parameters that nobody else sends',
    holds: ({ late, training: { owners, fragments } }) =>
      late === 'discard' || (owners === 0 && fragments === 1),
  },
  {
    at: 'rerun.permille',
    says: 'it is 0 where data.kind is own: nobody else has the rows to run the steps again on',
    nearest: 'leave --rerun-permille out, or train on a text that everybody has',
    holds: ({ rerun, data }) => rerun.permille === 0 || data.kind !== 'own',
  },
  {
    at: 'rerun.relays',
    says: 'it names one at least where rerun.permille is above 0, and none where it is 0: private state travels to them alone',
    nearest: 'say which: --rerun-relay URL',
    holds: ({ rerun }) => rerun.permille > 0 === rerun.relays.length > 0,
  },
  {
    at: 'jury',
    says: 'it is 0 where rerun.permille is: nothing is drawn that members could run again',
    nearest: 'say how much is drawn: --rerun-permille N --rerun-relay URL',
    holds: ({ jury, rerun }) => jury === 0 || rerun.permille > 0,
  },
  {
    at: 'late',
    says: 'it is discard where rerun.permille is above 0: what waits to be listed late is in no state that can be derived',
    nearest: 'take --late discard',
    holds: ({ late, rerun }) => late === 'discard' || rerun.permille === 0,
  },
  {
    at: 'contributors',
    says: 'it is 0 where late is defer or there is stake: who is drawn would owe what comes late, or weigh nothing',
    nearest: 'leave --contributors out',
    holds: ({ contributors, late, stake }) =>
      contributors === 0 || (late === 'discard' && stake.source === 'none'),
  },
  ...paceRules,
  {
    at: 'limits.weightCap',
    says: 'it is training.maxExamples, or where that is 0 training.innerSteps x training.batchSize',
    holds: ({ limits, training }) => limits.weightCap === weightCapOf(training),
  },
  ...aggregationRules,
  ...tierRules,
];

/** Throws a `ConfigError` that names the first rule broken. */
function assertConsistent(spec: RunSpec): void {
  assertTier(spec);
  const broken = specRules.find(({ holds }) => !holds(spec));
  if (broken === undefined) return;
  const { at, says, nearest } = broken;
  throw new ConfigError(
    'spec/inconsistent',
    `${at} is ${valueAt(spec, at)}: it must be that ${says}`,
    { ...(nearest && { hint: nearest }), data: { at } },
  );
}

function valueAt(spec: RunSpec, path: string): string {
  const value = path
    .split('.')
    .reduce<unknown>((at, name) => (at as Readonly<Record<string, unknown>>)[name], spec);
  const text = JSON.stringify(value) ?? 'absent';
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
