/** Makes a complete run spec from a partial document and settings; the rest follows from the model and the data. */

import { fromHex } from '../base/bytes.ts';
import { ConfigError } from '../base/errors.ts';
import { sha256, sha256Hex } from '../base/hash.ts';
import { assertSliceSizes, sizesOfSlice } from '../model/data/evaluation.ts';
import { type DataSizes, inputOf, layoutOf } from '../model/from-settings.ts';
import { chunkTree } from '../network/chunks/payload.ts';
import { mostPayloadBytes } from '../network/codec/codecs.ts';
import type { Sha256 } from '../network/event-crypto.ts';
import { ruleForms, ruleNames, usualAggregation, verifiedAggregation } from '../run/aggregation.ts';
import { runDataOf } from '../run/data-forms.ts';
import { readKey, type Shard } from '../run/field.ts';
import type { WorkerId } from '../run/ids.ts';
import { inputSettings } from '../run/input.ts';
import { fields } from '../run/options.ts';
import {
  adapterNames,
  fixedLocalSteps,
  inputNames,
  type PartialSettings,
  readSettings,
  type Settings,
  sharedNames,
  spell,
  writeSettings,
} from '../run/settings.ts';
import { weightCapOf } from '../run/spec/exclusions.ts';
import {
  combineSettings,
  inHalves,
  packsForOneEvent,
  presets,
  requestedModel,
} from '../run/spec/presets.ts';
import { completeDocument, contradictions, readSpec } from '../run/spec/read-spec.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import { isObject, type Untyped } from '../run/spec/spec-readers.ts';
import type { Evaluation } from '../run/spec/spec-table.ts';
import { readStart, type Start } from '../run/spec/start.ts';

/** What everybody trains on, as a spec names it; of series and pictures also their sizes. */
export interface NamedCorpus {
  readonly sha256: string;
  readonly bytes: number;
  readonly sizes?: DataSizes;
}

/** What `makeSpec` takes: parts of a spec, and who makes it. */
export interface SpecRequest {
  /** Fields of a spec, as a file has them. */
  readonly document?: Untyped;
  /** Fields that win over those of the document. */
  readonly typed?: Untyped;
  /** Training settings, over those of the document. */
  readonly training?: PartialSettings;
  /** What everybody evaluates on, where each worker has its own data to train on: its bytes, or what reads them. */
  readonly slice?: Uint8Array | ((training: Settings) => Promise<Uint8Array>) | undefined;
  /** Whether a corpus was named, so that its hash and length are those of the text that is read. */
  readonly namesCorpus?: boolean;
  /** Reads the corpus: the one named, else the usual one; with a hash, none but that. Regressions need none. */
  corpus?(sha256: string | undefined, training: Settings): Promise<NamedCorpus>;
  /** Opens the base of these settings and says what a run holds of it; only pretrained models need one. */
  start?(settings: Settings): Promise<Start>;
  /** The key that makes the run, where the document does not name another. */
  readonly me: string;
  readonly sha256?: Sha256 | undefined;
}

/** What `makeSpec` gives. */
export interface Made {
  readonly spec: RunSpec;
  /** The evaluation slice, to be published. */
  readonly slice: Uint8Array | undefined;
}

/** The spec and its slice. Throws a `ConfigError` that names what is wrong. */
export async function makeSpec(request: SpecRequest): Promise<Made> {
  const { document = {}, typed = {} } = request;
  const merged = overlay(document, typed);
  const author = keyOf(merged.author ?? request.me);
  const founders = Array.isArray(typed.founders)
    ? [...new Set([author, ...typed.founders.map(keyOf)])]
    : (merged.founders ?? [author]);
  const aggregation = aggregationOf(merged, namedIn(founders, merged));
  const training = trainingOf(merged, request.training ?? {}, aggregation);
  const slice = typeof request.slice === 'function' ? await request.slice(training) : request.slice;
  const start = await startIn(merged, request, training);
  const shards = Array.isArray(founders) ? founders.length : 1;
  const { data, sizes } = await dataOf(merged, { ...request, slice }, training, shards);
  const input = inputOf(training, sizes);
  const layout = layoutOf({ ...training, tier: '0' }, { start, input });
  // adapters have to fit the smallest tier too
  const smallest = fields.tier.read(`${training.tiers}`, 'tier');
  if (smallest !== '0') layoutOf({ ...training, tier: smallest }, { start, input });
  const derived = {
    name: training.model,
    data,
    aggregation,
    evaluation: slice && evaluationOf(slice, request.sha256),
    timing: { graceMaxMs: training.roundTimeout * 1000 },
    ...(Array.isArray(founders) &&
      founders.length > CALLED_FOUNDERS && {
        foundersPerRound: CALLED_FOUNDERS,
        joinsPerRound: CROWD_JOINS,
      }),
    ...(membersOf(merged.admission).kind === 'trust' && { joinsPerRound: TRUSTED_JOINS }),
    limits: {
      payloadBytes: mostPayloadBytes(layout),
      weightCap: weightCapOf(training),
    },
  };
  const shared = Object.entries(writeSettings(training)).filter(([name]) => isShared(name));
  const complete = { ...membersOf(merged.training), ...Object.fromEntries(shared) };
  const spec = readSpec(
    completeDocument(
      {
        ...merged,
        author,
        founders,
        training: complete,
        ...(start && { start }),
        ...(input && { input }),
      },
      derived,
    ),
  );
  assertFits(spec, slice);
  return { spec, slice };
}

/** Of more founders so many are called for the first outcome: more than seats. */
const CALLED_FOUNDERS = 84;
/**
 * Newcomers per round in such a run: an event fits about a hundred joins of 504 bytes beside rows and votes.
 */
const CROWD_JOINS = 16;

/**
 * Keys that a verified run must name before its rule tolerates hostile ones by default: with fewer, one absence may
 * stop it.
 */
const LEAST_NAMED = 5;

/**
 * The default aggregation. A verified run that names hostile rows or five keys takes the rule that costs least in the
 * attack lab; all others take the mean within the norm bound. If the spec does not set f, assume a quarter of the named
 * keys, and at least one.
 */
function aggregationOf(document: Untyped, named: number): Untyped {
  const { rule, before, hostile } = membersOf(document.aggregation);
  const { weights = 'equal' } = membersOf(document.committee);
  const quarter = Math.max(1, Math.floor(named / 4));
  if (rule === undefined && document.tier === 'verified' && weights === 'equal') {
    const withstands = hostile === undefined ? named >= LEAST_NAMED : hostile !== 0;
    if (withstands || before !== undefined) return { ...verifiedAggregation, hostile: quarter };
  }
  const known = rule ?? usualAggregation.rule;
  const isMean = ruleNames.some((name) => name === known && ruleForms[name] === 'mean');
  return { hostile: isMean ? 0 : quarter };
}

/** What a rule that looks at every value of whole rows makes of settings that nobody asked for. */
const forWholeRows = (preset: PartialSettings): PartialSettings => ({
  owners: 0,
  residual: 'feedback',
  ...(packsForOneEvent(preset) && { packing: 'int4' }),
});

/** Settings for contributions that are measured one by one: a rotated one is mostly noise until it is averaged. */
const forSingleRows = ({ packing }: PartialSettings): PartialSettings =>
  packing === 'rotated' ? inHalves : {};

/** Everybody who is named as one who may take part. */
function namedIn(founders: unknown, { admission }: Untyped): number {
  const { keys } = membersOf(admission);
  const all = [founders, keys].flatMap((list: unknown) => (Array.isArray(list) ? list : []));
  return new Set(all.map(keyOf)).size;
}

/** Newcomers of a round where each shows whom it is trusted by, if nobody says how many. */
const TRUSTED_JOINS = 4;

/** In hex where it is a key; what is none is left for the spec's reader to refuse. */
const keyOf = (value: unknown): unknown => readKey(value) ?? value;

const isOfAdapter = (name: string): boolean => adapterNames.some((each) => each === name);

const isOfInput = (name: string): boolean => inputNames.some((each) => each === name);

const isShared = (name: string): boolean => sharedNames.some((each) => each === name);

const membersOf = (value: unknown): Untyped => (isObject(value) ? value : {});

const evaluationOf = (slice: Uint8Array, sha256: Sha256 | undefined): Evaluation => ({
  sha256: sha256Hex(slice),
  bytes: slice.length,
  root: chunkTree(slice, sha256).root,
});

/** Throws where the slice does not fit the model. */
export function assertFits(spec: RunSpec, slice: Uint8Array | undefined): void {
  if (!slice) return;
  const sizes = sizesOfSlice(slice, { horizon: 0, ...spec.training, ...inputSettings(spec.input) });
  if (sizes) assertSliceSizes(sizes, spec.input);
}

/** Flags over a file, object by object. */
function overlay(document: Untyped, typed: Untyped): Untyped {
  const merged: Record<string, unknown> = { ...document };
  for (const [name, value] of Object.entries(typed)) {
    const before = merged[name];
    merged[name] = isObject(before) && isObject(value) ? { ...before, ...value } : value;
  }
  return merged;
}

/** Preset, then file, then flags. Names that are no settings are left for the spec's reader to refuse. */
function trainingOf(document: Untyped, typed: PartialSettings, { rule }: Untyped): Settings {
  const known = Object.entries(membersOf(document.training)).filter(([name]) => isShared(name));
  const { adapter } = membersOf(document.start);
  const ofBase = Object.entries(membersOf(adapter)).filter(([name]) => isOfAdapter(name));
  const ofInput = Object.entries(membersOf(document.input)).filter(([name]) => isOfInput(name));
  const requested = {
    ...readSettings(Object.fromEntries(known), 'training'),
    ...readSettings(Object.fromEntries(ofBase), 'start.adapter'),
    ...readSettings(Object.fromEntries(ofInput), 'input'),
    ...typed,
    // fields of the spec's own
    ...usualAggregation,
    ...fixedLocalSteps,
    ...(typeof document.tiers === 'number' && { tiers: document.tiers }),
  };
  const model = requestedModel(requested) ?? (isObject(document.start) ? 'pretrained' : 'char-gpt');
  const preset = presets[model];
  const needsSingleRows = document.screening === true || document.scores === true;
  const ofRows = needsSingleRows ? forSingleRows(preset) : {};
  const fitting = rule === undefined ? ofRows : forWholeRows(preset);
  return combineSettings(preset, { run: 'run', relay: [], ...fitting, ...requested, model });
}

/** The published model to start from: of the base that was named, else of the document; null for other models. */
async function startIn(
  document: Untyped,
  { start }: SpecRequest,
  training: Settings,
): Promise<Start | null> {
  if (training.model !== 'pretrained') return null;
  if (training.base === '' && isObject(document.start)) {
    const { rank, alpha, targets } = training;
    const adapter = {
      adapterTrain: 'both',
      ...membersOf(document.start.adapter),
      rank,
      alpha,
      targets,
    };
    return readStart({ start: { ...document.start, adapter } });
  }
  if (start !== undefined) return start(training);
  throw new ConfigError('base/missing', 'a pretrained model needs a base, and none is named', {
    hint: 'say which: `start` of a base that is open, or the section `start` in the document',
  });
}

/** The data of the run: the named corpus, else the usual one: synthetic examples or the usual text. */
async function dataOf(
  document: Untyped,
  { corpus, slice, namesCorpus }: Omit<SpecRequest, 'slice'> & Pick<Made, 'slice'>,
  training: Settings,
  shards: number,
): Promise<{ readonly data: Untyped; readonly sizes?: DataSizes }> {
  const data = membersOf(document.data);
  const { kinds, corpus: what } = runDataOf(training);
  const usual = namesCorpus && kinds.includes('corpus') ? 'corpus' : kinds[0];
  const kind = data.kind ?? (slice === undefined ? usual : 'own');
  if (kind !== 'corpus') {
    const sizes = kind === 'own' && slice ? sizesOfSlice(slice, training) : undefined;
    return { data: kind === 'made' ? { kind, shards } : { kind }, ...(sizes && { sizes }) };
  }
  const isGiven = data.sha256 !== undefined && data.bytes !== undefined;
  if (isGiven && !namesCorpus) {
    const { channels, classes } = membersOf(document.input);
    const sizes = { channels: Number(channels), classes: Number(classes) };
    return { data: { kind, shards }, ...(channels !== undefined && { sizes }) };
  }
  const wanted = typeof data.sha256 === 'string' ? data.sha256 : undefined;
  if (corpus === undefined) {
    throw new ConfigError('spec/data', `this model needs a ${what}, and none is named`, {
      hint: 'name it with --corpus',
    });
  }
  const { sha256, bytes, sizes } = await corpus(wanted, training);
  return { data: { kind, sha256, bytes, shards }, ...(sizes && { sizes }) };
}

/** Throws naming every flag that asks for something else than the spec says. */
export function assertNoContradiction(spec: RunSpec, requested: PartialSettings): void {
  const differences = contradictions(spec, requested);
  if (differences.length === 0) return;
  const words = differences.map(
    ({ name, asked, spec }) => `${spell(name)} is ${asked}, the run says ${spec}`,
  );
  // the rounds are in its name, and reveal chains have one value for each
  const isLonger = differences.some(({ name, asked, spec }) => name === 'rounds' && +asked > +spec);
  throw new ConfigError('flag/contradiction', words.join('; '), {
    hint: isLonger
      ? 'a certified run ends with the rounds of its spec; make another with `nostrain run ' +
        'create --rounds N`'
      : 'leave these out: a run is the same for everybody',
    data: { flags: differences.map(({ name }) => name) },
  });
}

/** Throws when the run has a list and the key, or the one in whose name it takes part, is not on it. */
export function assertAdmitted({ admission, founders }: RunSpec, me: WorkerId): void {
  const isIn = admission.kind !== 'list' || founders.includes(me) || admission.keys.includes(me);
  if (isIn) return;
  throw new ConfigError('run/not-invited', `key ${me} is not among those the run admits`, {
    hint: 'join with a key that was invited (--key-file FILE), or ask for a new run with yours',
  });
}

/** Which part of the data: the one asked for; else by position among the founders; else drawn by key. */
export const shardSettings = (
  spec: RunSpec,
  me: WorkerId,
  requested: PartialSettings,
): Pick<Settings, 'shard'> => ({ shard: shardIn(spec, me, requested.shard) });

function shardIn({ data, founders }: RunSpec, me: WorkerId, requested: Shard | undefined): Shard {
  if (data.kind === 'own') return requested ?? { index: 1, count: 1 };
  const count = data.shards;
  if (requested && requested.count !== count) {
    const words = `--shard is ${requested.index}/${requested.count}, the run says ${count} parts`;
    throw new ConfigError('flag/contradiction', words, {
      hint: `give a part like 1/${count}, or leave it out`,
    });
  }
  if (requested) return requested;
  const founderIndex = founders.indexOf(me);
  return { index: 1 + ((founderIndex < 0 ? drawOf(me) : founderIndex) % count), count };
}

/** The first four bytes of the key's hash, as a number. */
const drawOf = (me: WorkerId): number => new DataView(sha256(fromHex(me)!).buffer).getUint32(0);
