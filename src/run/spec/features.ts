/**
 * The extension mechanism of the format. A run spec names the features that its run uses; each feature owns fields in
 * the contents of the run (spec, join, vote, heartbeat, checkpoint, ledger and its rows, manifest, outcome). The fields
 * are present exactly if the spec names the feature, under `features` by its name, so that every content has one
 * canonical form. A program that does not know a feature refuses the spec.
 */
import { isJsonObject, type Json, type JsonObject } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { readChunkedFiles } from '../chunked-files.ts';
import type { Field } from '../field.ts';
import { readInput } from '../input.ts';
import { readPlacementField } from '../placement-policy.ts';
import {
  bit,
  delegationField,
  digest,
  digests,
  type FeatureField,
  formerJurors,
  groupIndex,
  hits,
  joinProof,
  keyOrNone,
  keysAscending,
  lastRounds,
  MOST_INDICES,
  MOST_NOTES,
  machineEvidence,
  measured,
  millionths,
  notePositions,
  rerunCommitment,
  rosterIndices,
  roundOrNone,
  scored,
  scoreList,
  sizeLists,
  sizes,
  tierField,
} from './feature-fields.ts';
import { readParent } from './parent.ts';
import { readGroup, readVariant } from './spec-readers.ts';
import { groupFields, plainFields, sectionFeatures, specDefaults } from './spec-table.ts';
import { readStart } from './start.ts';

/** Contents other than the spec that a feature may add fields to. */
export type FeatureContent =
  | 'join'
  | 'vote'
  | 'heartbeat'
  | 'checkpoint'
  | 'ledger'
  /** One member's row of the ledger. */
  | 'member'
  | 'manifest'
  | 'outcome';

/** A field on the top level of the spec. */
export interface SpecField {
  /** The value that applies without the feature; it must not be written. */
  readonly absent: unknown;
  /** Throws a ConfigError with the path. */
  read(spec: Readonly<Record<string, unknown>>, name: string): unknown;
}

type Fields = Readonly<Record<string, FeatureField>>;

export interface Feature extends Readonly<Partial<Record<FeatureContent, Fields>>> {
  readonly says: string;
  /** For a feature implied by another field: reports whether a spec has that value and must name the feature. */
  isIn?(spec: Readonly<Record<string, unknown>>): boolean;
  readonly spec?: Readonly<Record<string, SpecField>>;
}

export type FeatureTable = Readonly<Record<string, Feature>>;

const manifest = digest(
  'SHA-256 of the manifest of parameters and momentum, see docs/checkpoints.md',
);

/** All features, by name. */
export const features = {
  accuracy: {
    says:
      'workers that report losses also say how many held-out pictures the shared parameters ' +
      'have right',
    isIn: ({ input, telemetry }) =>
      telemetry === true && (input as { form?: unknown } | null | undefined)?.form === 'images',
    manifest: hits,
    heartbeat: hits,
  },
  address: {
    says: 'the text that everybody trains on lies at an address',
  },
  admission: {
    says: 'newcomers are admitted by work that they did, or by their stake',
    isIn: ({ admission }) =>
      ['work', 'stake'].includes(String((admission as { kind?: unknown } | undefined)?.kind)),
  },
  beacon: {
    says:
      'a public value that no participant can choose is mixed into the randomness of each ' +
      'round',
  },
  defer: {
    says: 'a contribution that comes one round late is listed by the next outcome',
    ledger: { late: keysAscending('whose contribution to the last round may still be listed') },
  },
  experts: {
    says:
      'feed-forward layers are mixtures of experts, and groups of workers train some of them ' +
      'each',
    join: { group: groupIndex('the index of the group whose experts its key trains; -1 for none') },
    member: { group: groupIndex('the same; -1 until an outcome lists its join') },
  },
  files: {
    says:
      'the text of the run and the files of its base are fetched in chunks, from sources that ' +
      'the run names and from its relays',
    spec: { files: { absent: null, read: readChunkedFiles } },
  },
  fork: {
    says: 'training goes on from a certified state of another run',
    spec: { parent: { absent: null, read: readParent } },
  },
  founders: {
    says:
      'other keys than founders have seats only as far as the live founders alone remain a ' +
      'quorum, set no bound, own no chunks, and together weigh at most a quarter of the founders',
  },
  founding: {
    says: 'outcomes list a limited number of joins of founders, the first of them chosen by lot',
  },
  input: {
    says:
      'the model reads series or pictures: of how many numbers, in which patches, and what of ' +
      'them it predicts',
    spec: { input: { absent: null, read: readInput } },
  },
  jury: {
    says:
      'members run drawn contributions again by themselves; whom a quorum of a committee ' +
      'finds at fault is out',
    ledger: { left: formerJurors('former members that sat in committees of the last rounds') },
    member: { sat: lastRounds('the last rounds in whose committee it had a seat') },
  },
  machines: {
    says: 'newcomers show evidence of a machine that the run accepts',
    join: {
      evidence: machineEvidence,
      sealKey: digest('X25519 key that the evidence binds to the run and the worker'),
    },
  },
  notes: {
    says:
      'the text is a corpus of notes, a line each; members name those that their authors ' +
      'deleted, and workers leave them out',
    vote: {
      deleted: notePositions(MOST_INDICES)('notes that the voter knows to be deleted'),
    },
    ledger: {
      deleted: notePositions(MOST_NOTES)('notes that are left out in this round'),
    },
  },
  pace: {
    says:
      'workers train for a fixed number of seconds per round, with as many steps as their ' +
      'speed allows',
  },
  places: {
    says: 'chunks of checkpoints lie on servers too, under the hash of a manifest',
    checkpoint: { manifest },
  },
  placement: {
    says:
      'members hold chunks of checkpoints, which ones a placement document says, and give ' +
      'them to newcomers',
    spec: { placement: { absent: null, read: readPlacementField } },
    checkpoint: { manifest },
  },
  rerun: {
    says:
      'workers commit to the private state they train from, so that witnesses can run sampled ' +
      'inner phases again',
    manifest: rerunCommitment,
  },
  rule: {
    says: 'rows become a step by another rule than the mean of rows within a bound',
  },
  sample: {
    says:
      'a round counts contributions of workers that are drawn for it, where the roster has ' +
      'more than are useful',
  },
  scores: {
    says:
      'members score the contributions of the round before on rows they all share; who does ' +
      'harm loses its seat',
    vote: {
      of: scored('scores of the round before, in millionths of a loss, by index in the roster'),
    },
    member: {
      history: scoreList('its last scores, oldest first'),
      low: bit('1 where its rolling score is under the floor'),
      before: bit('the same before the last outcome'),
    },
  },
  screening: {
    says:
      'members refuse contributions that make the model worse by their own measure, and say ' +
      'whose',
    vote: {
      screened: rosterIndices('whose contribution the voter would not list, since it does harm'),
    },
  },
  sealed: {
    says: 'each worker trains on encrypted data, of which it opens its part in memory',
  },
  seats: {
    says:
      'a join says whether its key wants seats in committees; a later one changes that, two ' +
      'rounds on',
    join: { wants: bit('1 where the key wants seats, 0 where it wants none') },
    member: {
      wants: bit('1 where it wants seats'),
      before: bit('the same before the last outcome'),
      asked: roundOrNone(
        'the round of the outcome that its last wish follows; -1 for the run itself',
      ),
    },
  },
  sessions: {
    says:
      'a join may show by which other key, its principal, its own was delegated for this run; ' +
      'one session of a principal at a time',
    join: { by: delegationField },
    member: {
      principal: keyOrNone('in whose name it takes part; empty where in its own'),
      until: roundOrNone('the last round in which it may; -1 where in its own name'),
    },
  },
  start: {
    says: 'what is trained is a published model, or adapters on one: which files, and what of it',
    spec: { start: { absent: null, read: readStart } },
  },
  stake: {
    says: 'a table of stakes says who may sit on committees, and what contributions weigh',
    ledger: {
      snapshot: digest('the table that holds in this round'),
      next: digest('the table that holds in the round after it'),
    },
    outcome: { snapshot: digest('the table that holds two rounds later') },
  },
  telemetry: {
    says:
      'workers say how their training goes: losses, a text, their device; nothing is decided ' +
      'by it',
    manifest: {
      own: millionths('mean training loss of the inner steps, in millionths'),
      ...measured,
    },
    heartbeat: measured,
  },
  tier: {
    says: 'the run is of a tier that asks who takes part',
  },
  trust: {
    says: 'newcomers are admitted by keys that others trust, and their joins show how',
    isIn: ({ admission }) => (admission as { kind?: unknown } | undefined)?.kind === 'trust',
    join: { proof: joinProof },
  },
  widths: {
    says:
      'workers train MatFormer tiers: the full model, or the first part of every ' +
      'feed-forward layer',
    join: { tier: tierField('which tier its key trains, as long as it is a member') },
    member: { tier: tierField('which tier it trains') },
    ledger: { sizes: sizeLists('the same as `rowSizes` of each slice but the first') },
    outcome: {
      rings: digests('root of each slice; the model root is over these'),
      sizes: sizes('the same as `rowSize` of each slice but the first'),
    },
    manifest: { rings: digests('of each slice that the worker has, before its inner steps') },
    heartbeat: { rings: digests('of each slice that the worker has') },
  },
} as const satisfies FeatureTable;

type Table = typeof features;
export type FeatureName = keyof typeof features;

/** Fields that features add to a content. */
export type FeatureValues<P extends FeatureContent> = {
  readonly [F in keyof Table as Table[F] extends Readonly<Record<P, Fields>>
    ? F
    : never]?: Table[F] extends Readonly<Record<P, Fields>>
    ? { readonly [K in keyof Table[F][P]]: Exclude<FieldValue<Table[F][P][K]>, undefined> }
    : never;
};
type FieldValue<T> = T extends FeatureField<infer V> ? V : never;

/** The features of one run, for reading its contents. */
export interface FeatureSet {
  readonly names: readonly string[];
  /** Reads `features` of a content: exactly the fields of this run, or a refusal that names the first other field. */
  read<P extends FeatureContent>(content: P, json: unknown): Result<FeatureValues<P>>;
}

/** Returns the set of these features. */
export function featureSet(names: readonly string[], table: FeatureTable = features): FeatureSet {
  return {
    names,
    read(content, json) {
      const read = readFeatures(names, table, content, json as Json | undefined);
      return read.ok ? ok(read.value as FeatureValues<typeof content>) : read;
    },
  };
}

/** Accepts any features unchecked: for contents of a run whose spec is unknown, or that this program wrote. */
export const anyFeatures: FeatureSet = {
  names: Object.keys(features),
  read: (_, json) => ok((json ?? {}) as never),
};

/** Contents outside certified runs have no features. */
export const noFeatures = featureSet([]);

/** For workers that train MatFormer tiers outside certified runs. */
export const tierFeatures = featureSet(['widths']);

function readFeatures(
  names: readonly string[],
  table: FeatureTable,
  content: FeatureContent,
  json: Json | undefined,
): Result<JsonObject> {
  const wrong = (at: string, why: string) => refuse('wrong-features', `features.${at}`, why);
  const expected = names.filter((name) => table[name]?.[content] !== undefined);
  if (json === undefined && expected.length === 0) return ok({});
  const all = json ?? {};
  if (!isJsonObject(all)) return wrong(content, 'features are not an object');
  const other = Object.keys(all).find((name) => !expected.includes(name));
  if (other !== undefined || json === undefined || expected.length === 0) {
    const what = other ?? expected[0] ?? 'none';
    return wrong(what, `features of this ${content} are ${expected.join(', ') || 'none'}`);
  }
  for (const name of expected) {
    const fields = table[name]![content]!;
    const values = all[name];
    const broken =
      isJsonObject(values) && Object.keys(values).every((key) => Object.hasOwn(fields, key))
        ? Object.keys(fields).find((key) => {
            return !Object.hasOwn(values, key) || fields[key]!.read(values[key]!) === undefined;
          })
        : '';
    if (broken === undefined) continue;
    const accepted = fields[broken]?.accepted ?? `an object of ${Object.keys(fields).join(', ')}`;
    return wrong(broken === '' ? name : `${name}.${broken}`, `it is not ${accepted}`);
  }
  return ok(all);
}

/** Returns the member `features` of a content, left out if it is empty. */
export const withFeatures = <T extends object>(values: T | undefined): { readonly features?: T } =>
  values === undefined || Object.keys(values).length === 0 ? {} : { features: values };

interface FeatureSpecField {
  readonly name: string;
  readonly feature: string;
  readonly field: SpecField;
}

/** Reads a section of the spec that belongs to a feature as a whole. */
const readSection = (name: keyof typeof sectionFeatures): SpecField['read'] =>
  name === 'beacon' || name === 'stake'
    ? (spec) => readVariant(spec, name)
    : (spec) => readGroup(spec, name, groupFields[name]);

/** Spec fields whose rows name a feature, and sections that belong to one. */
const ownedRows: readonly FeatureSpecField[] = [
  ...Object.entries<Field<unknown>>(plainFields).flatMap(([name, row]) => {
    if (row.feature === undefined) return [];
    const read: SpecField['read'] = (spec) => row.read(spec[name], name);
    return [{ name, feature: row.feature, field: { absent: row.default, read } }];
  }),
  ...Object.entries(sectionFeatures).map(([name, feature]) => {
    const read = readSection(name as keyof typeof sectionFeatures);
    return { name, feature, field: { absent: specDefaults[name], read } };
  }),
];

/** Returns the spec fields that belong to features, with their feature and reader. */
export const ownedSpecFields = (table: FeatureTable): readonly FeatureSpecField[] => [
  ...ownedRows,
  ...Object.entries(table).flatMap(([feature, { spec = {} }]) =>
    Object.entries(spec).map(([name, field]) => ({ name, feature, field })),
  ),
];
