/** Completes a run spec from a partial document and settings; derives the rest from the model and the data. */

import { fromHex } from '../base/bytes.ts';
import { ConfigError } from '../base/errors.ts';
import { sha256, sha256Hex } from '../base/hash.ts';
import { isObject, type Untyped } from '../base/shape.ts';
import { assertSliceSizes, sizesOfSlice } from '../model/data/evaluation.ts';
import { type DataSizes, inputOf, layoutOf, sizeSettings } from '../model/from-settings.ts';
import { chunkTree } from '../network/chunks/payload.ts';
import { mostPayloadBytes } from '../network/codec/codecs.ts';
import type { Sha256 } from '../network/event-crypto.ts';
import { isImported, runDataOf } from '../run/data-forms.ts';
import type { Shard } from '../run/field.ts';
import type { WorkerId } from '../run/ids.ts';
import { inputSettings } from '../run/input.ts';
import { fields } from '../run/options.ts';
import { type PartialSettings, type Settings, spell, writeSettings } from '../run/settings.ts';
import type { Adaptation } from '../run/spec/adaptation.ts';
import { weightCapOf } from '../run/spec/exclusions.ts';
import type { Delegation } from '../run/spec/feature-fields.ts';
import { importedDataOf } from '../run/spec/imported-shape.ts';
import { completeDocument, contradictions, readSpec } from '../run/spec/read-spec.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import type { Evaluation } from '../run/spec/spec-table.ts';
import { readStart, type Start } from '../run/spec/start.ts';
import { fullName } from '../run/worker-names.ts';
import { guardsOf, isShared, keyOf, membersOf, specDefaults } from './spec-defaults.ts';

/** The shared training data as a spec names it, with the sizes of series and pictures. */
export interface NamedCorpus {
  readonly sha256: string;
  readonly bytes: number;
  readonly sizes?: DataSizes;
}

/** Parts of a spec, and its author. */
export interface SpecRequest {
  /** Fields of a spec as in a file. */
  readonly document?: Untyped;
  /** Fields that override those of the document. */
  readonly typed?: Untyped;
  /** Training settings that override those of the document. */
  readonly training?: PartialSettings;
  /** Evaluation slice if each worker trains on its own data: its bytes, or a function that reads them. */
  readonly slice?: Uint8Array | ((training: Settings) => Promise<Uint8Array>) | undefined;
  /** Whether the user named a corpus, so that hash and length are taken from that text. */
  readonly namesCorpus?: boolean;
  /**
   * Reads the corpus: the named one, else the default; if `sha256` is given, only a text with that hash. Not needed for
   * regression.
   */
  corpus?(sha256: string | undefined, training: Settings): Promise<NamedCorpus>;
  /** Opens the base model of these settings and returns its part of the spec; only needed for pretrained models. */
  start?(settings: Settings): Promise<Start>;
  /**
   * Whether strangers are kept from deciding unless the document says otherwise: admission by invitation, and founders
   * who decide where anyone may join. Default: the values of the format, which let anyone join and decide.
   */
  readonly isGuarded?: boolean;
  /** Author of the run, unless the document names another key. */
  readonly me: string;
  readonly sha256?: Sha256 | undefined;
}

/** A complete spec, and its evaluation slice. */
export interface Made {
  readonly spec: RunSpec;
  /** Settings and fields that other ones changed, although the request does not set them. */
  readonly adaptations: readonly Adaptation[];
  /** Evaluation slice to publish. */
  readonly slice: Uint8Array | undefined;
}

/** Returns the complete spec and its evaluation slice. Throws a ConfigError that names the invalid field. */
export async function makeSpec(request: SpecRequest): Promise<Made> {
  const { document = {}, typed = {} } = request;
  const merged = overlay(document, typed);
  const author = keyOf(merged.author ?? request.me);
  const founders = Array.isArray(typed.founders)
    ? [...new Set([author, ...typed.founders.map(keyOf)])]
    : (merged.founders ?? [author]);
  const defaults = specDefaults(merged, founders, request.training ?? {});
  const { training, adaptations } = defaults;
  const start = await startIn(merged, request, training);
  const read = importedDataOf(start);
  const sized = { ...training, ...(read && sizeSettings(read)) };
  const slice = typeof request.slice === 'function' ? await request.slice(sized) : request.slice;
  const shards = Array.isArray(founders) ? founders.length : 1;
  const { data, sizes } = await dataOf(merged, { ...request, slice }, sized, shards);
  const input = inputOf(training, sizes);
  const layout = layoutOf({ ...training, tier: '0' }, { start, input });
  // adapters must fit the smallest tier too
  const smallest = fields.tier.read(`${training.tiers}`, 'tier');
  if (smallest !== '0') layoutOf({ ...training, tier: smallest }, { start, input });
  const derived = {
    name: training.model,
    data,
    ...(request.isGuarded && guardsOf(merged, founders)),
    ...defaults.fields,
    evaluation: slice && evaluationOf(slice, request.sha256),
    timing: { graceMaxMs: training.roundTimeout * 1000 },
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
  return { spec, slice, adaptations };
}

const evaluationOf = (slice: Uint8Array, sha256: Sha256 | undefined): Evaluation => ({
  sha256: sha256Hex(slice),
  bytes: slice.length,
  root: chunkTree(slice, sha256).root,
});

/** Throws a ConfigError if the evaluation slice does not fit the model. */
export function assertFits(spec: RunSpec, slice: Uint8Array | undefined): void {
  if (!slice) return;
  const read = importedDataOf(spec.start);
  const sized = { ...inputSettings(spec.input), ...(read && sizeSettings(read)) };
  const sizes = sizesOfSlice(slice, { horizon: 0, ...spec.training, ...sized });
  if (sizes) assertSliceSizes(sizes, read ?? spec.input);
}

/** Merges flags into a document, field by field for objects. */
function overlay(document: Untyped, typed: Untyped): Untyped {
  const merged: Record<string, unknown> = { ...document };
  for (const [name, value] of Object.entries(typed)) {
    const before = merged[name];
    merged[name] = isObject(before) && isObject(value) ? { ...before, ...value } : value;
  }
  return merged;
}

/** Returns the published model to start from: the named base, else that of the document; null for other models. */
async function startIn(
  document: Untyped,
  { start }: SpecRequest,
  training: Settings,
): Promise<Start | null> {
  if (training.model !== 'pretrained' && !isImported(training)) return null;
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
  throw new ConfigError(
    'base/missing',
    'a pretrained model needs a base model, and none is given',
    {
      hint: 'pass `start` for an open base model, or add the section `start` to the document',
    },
  );
}

/** Returns the data of the run: the named corpus, else the default: synthetic examples or the default text. */
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
    throw new ConfigError('spec/data', `this model needs a ${what}, and none is given`, {
      hint: 'add it with --corpus',
    });
  }
  const { sha256, bytes, sizes } = await corpus(wanted, training);
  return { data: { kind, sha256, bytes, shards }, ...(sizes && { sizes }) };
}

/** Throws a ConfigError (`flag/contradiction`) naming every flag that differs from the spec. */
export function assertNoContradiction(spec: RunSpec, requested: PartialSettings): void {
  const differences = contradictions(spec, requested);
  if (differences.length === 0) return;
  const words = differences.map(
    ({ name, requested, spec }) => `${spell(name)} is ${requested}, but the run has ${spec}`,
  );
  // the run id covers the number of rounds, and reveal chains have one value per round
  const isLonger = differences.some(
    ({ name, requested, spec }) => name === 'rounds' && +requested > +spec,
  );
  throw new ConfigError('flag/contradiction', words.join('; '), {
    hint: isLonger
      ? 'a certified run ends after the rounds of its spec; make another with `nostrain run ' +
        'create --rounds N`'
      : 'remove these flags: all workers of a run share its settings',
    data: { flags: differences.map(({ name }) => name) },
  });
}

/**
 * Throws a ConfigError (`run/not-invited`) if the run admits by list and `me`, the key or its principal, is not on it.
 */
export function assertAdmitted({ admission, founders, author }: RunSpec, me: WorkerId): void {
  const isIn = admission.kind !== 'list' || founders.includes(me) || admission.keys.includes(me);
  if (isIn) return;
  throw new ConfigError('run/not-invited', `the run does not admit the key ${fullName(me)}`, {
    hint: `join with an invited key (--key-file FILE), or ask ${fullName(author)} for a new run`,
  });
}

/**
 * Returns the data shard: the requested one, else by position among the founders of this key or the principal that
 * delegated it, else drawn by key.
 */
export const shardSettings = (
  spec: RunSpec,
  me: WorkerId,
  requested: PartialSettings,
  delegation?: Delegation | null,
): Pick<Settings, 'shard'> => ({
  shard: shardIn(spec, me, requested.shard, delegation?.key ?? me),
});

function shardIn(
  { data, founders }: RunSpec,
  me: WorkerId,
  requested: Shard | undefined,
  principal: WorkerId,
): Shard {
  if (data.kind === 'own') return requested ?? { index: 1, count: 1 };
  const count = data.shards;
  if (requested && requested.count !== count) {
    const shard = `${requested.index}/${requested.count}`;
    const words = `--shard is ${shard}, but the run has ${count} parts`;
    throw new ConfigError('flag/contradiction', words, {
      hint: `use a part like 1/${count}, or remove the flag`,
    });
  }
  if (requested) return requested;
  const founderIndex = founders.indexOf(principal);
  return { index: 1 + ((founderIndex < 0 ? drawOf(me) : founderIndex) % count), count };
}

/** Returns the first four bytes of the key's hash as a number. */
const drawOf = (me: WorkerId): number => new DataView(sha256(fromHex(me)!).buffer).getUint32(0);
