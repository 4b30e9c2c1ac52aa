/**
 * The published model that training starts from: downloads or opens it as the settings say, hashes its files, and
 * builds the model to train. Weights are read only when needed.
 */
import { resolve } from 'node:path';
import { ConfigError } from '../../base/errors.ts';
import { modelRoot } from '../../consensus/roots.ts';
import type { LoraSpec } from '../../model/adapters/lora.ts';
import { sliceTensor } from '../../model/architectures/slices.ts';
import { type AnyModel, modelOf } from '../../model/architectures/table.ts';
import { adapterOf, trainedOf } from '../../model/from-settings.ts';
import { initialParameters, modelLayout } from '../../model/parameters.ts';
import { assertSameShape, frozenReaders, hashTokenizer } from '../../pretrained/base-parts.ts';
import { isHubReference, parseHubReference } from '../../pretrained/hub-reference.ts';
import type { Pretrained } from '../../pretrained/pretrained.ts';
import { tierOf } from '../../pretrained/tiers/tier.ts';
import type { PublishedTokenizer } from '../../pretrained/tokenizer.ts';
import { readFinite } from '../../pretrained/weights.ts';
import type { Digest } from '../../run/ids.ts';
import type { Settings } from '../../run/settings.ts';
import type { DecoderSpec, Precision } from '../../run/spec/model-spec.ts';
import {
  assertSameBase,
  assertSameSlices,
  type BaseFile,
  type BaseIdentity,
  type Start,
  shapeOf,
} from '../../run/spec/start.ts';
import type { Params } from '../../tensor/params.ts';
import type { FrozenNumbers } from '../../trainer/setup.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { type BaseTier, hashSlices, identityOfTiers, openBaseTier } from './base-tier.ts';
import { downloadReporter, fetchModel } from './hub.ts';
import { hashFiles, openLocalModel } from './model-files.ts';

/** A model whose first parameters are in files. */
export interface FirstParameters {
  /** Returns the parameters of the first round: seeded adapters, which do not change the output yet, or the weights. */
  first(seed: number): Promise<Float32Array>;
}

/** A base model, and the part of it that is trained. */
export interface BaseModel extends BaseIdentity, FirstParameters {
  readonly name: string;
  /** References where others can get it: on the hub, at the revision that was opened. */
  readonly from: readonly string[];
  readonly pretrained: Pretrained;
  readonly tokenizer: PublishedTokenizer;
  /** The architecture of the base, for windows of the run's context. */
  readonly spec: DecoderSpec;
  /** Undefined if all parameters are trained. */
  readonly adapter: LoraSpec | undefined;
  /** The tier of this worker, in a run with tiers. */
  readonly tier: BaseTier | undefined;
  /** SHA-256 of the weights in each slice of that tier, in a run with tiers. */
  readonly sliceHashes: readonly Digest[] | undefined;
  /** The model to train; its layout is that of the run's parameters. */
  readonly model: AnyModel;
  /** How a writer of text holds the base. */
  readonly precision: Precision;
  /** Returns readers of the frozen tensors. They throw a ConfigError if a number is not finite. */
  frozen(): Promise<Readonly<Record<string, FrozenNumbers>>>;
}

/** Settings that choose the base model and what part of it is trained. */
export type BaseSettings = Pick<Settings, 'base' | 'rank' | 'alpha' | 'targets' | 'seed'> &
  Partial<Pick<Settings, 'tiers' | 'tier' | 'tierStrategy' | 'helper' | 'helperRotation'>> & {
    /** Tokens of a training window; by default the longest that the model supports. */
    readonly context?: number;
    /** Precision of the frozen base in a run with adapters; default f32. */
    readonly basePrecision?: Precision;
  };

export interface OpenBase {
  /** Expected files, if known; other ones are not downloaded. */
  readonly wanted?: readonly BaseFile[] | undefined;
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

export type OpensBase = (settings: Settings, options: OpenBase) => Promise<BaseModel>;

/** Opens the base model of these settings. Throws a ConfigError (`base/missing`, `model/…`, `adapter/…`). */
export async function openBase(settings: BaseSettings, options: OpenBase): Promise<BaseModel> {
  const path = await localBase(settings.base, options);
  const { context, basePrecision = 'f32', tiers = 0 } = settings;
  const { tier = 'auto', tierStrategy = 'auto', helper = false, helperRotation = 0 } = settings;
  const tierSettings = { tiers, tier, tierStrategy, helper, helperRotation };
  const { signal, onNotice } = options;
  const part =
    tiers === 0 ? undefined : await openBaseTier(path, tierSettings, { context, onNotice, signal });
  const pretrained = part?.pretrained ?? (await openLocalModel(path, { context }));
  const { spec, tokenizer, name } = pretrained;
  const trained = part?.spec ?? spec;
  const adapter = adapterOf(settings);
  if (helper && adapter !== undefined) {
    throw new ConfigError(
      'adapter/helper',
      'a helper cannot train adapters: its slice of the base changes every few rounds',
      { hint: 'use --rank 0, or leave helper out' },
    );
  }
  const model = trainedOf(trained, adapter, basePrecision);
  const sliceHashes = part && (await hashSlices(pretrained, part.spec.ffn, part.spec.tiers));
  return {
    name,
    pretrained,
    spec,
    adapter,
    model,
    precision: basePrecision,
    tokenizer,
    tier: part,
    sliceHashes: sliceHashes?.map(({ sha256 }) => sha256),
    from: hintsOf(settings.base, path),
    files: part
      ? identityOfTiers(part, sliceHashes!)
      : await hashFiles(path, pretrained.files, options),
    tokenizerSha256: hashTokenizer(pretrained, nativeSha256),
    frozen: async () => (adapter === undefined ? {} : frozenReaders(pretrained)),
    first: async (of) =>
      adapter === undefined
        ? await flatWeights(pretrained, fullIfHelping(trained))
        : initialParameters(model, of),
  };
}

/** Returns the start section of a run spec for a base opened without tiers; `more` are other sources of it. */
export async function startFrom(
  base: BaseModel,
  { rank, alpha, targets, tiers: count = 0 }: BaseSettings,
  more: readonly string[] = [],
): Promise<Start> {
  const { files, tokenizerSha256, spec, pretrained, from } = base;
  if (count > 0) assertFullModel(pretrained);
  const tiers = count > 0 ? { count, tier: 0 } : undefined;
  const trained = tiers ? { ...spec, tiers } : spec;
  return {
    files,
    tokenizerSha256,
    model: shapeOf(spec),
    from: [...new Set([...more, ...from])],
    adapter: { rank, alpha, targets, adapterTrain: 'both' },
    ...(tiers && {
      rings: (await hashSlices(pretrained, spec.ffn, tiers)).map(({ sha256 }) => sha256),
    }),
    root: rank === 0 ? rootsOf(trained, await flatWeights(pretrained, trained)) : null,
  };
}

/** Returns the model root of round 0; for a model in slices the root of each slice. */
function rootsOf(trained: DecoderSpec, values: Float32Array): Digest | readonly Digest[] {
  const layout = modelLayout(trained);
  if (!layout.slices) return rootOf({ layout, values });
  return layout.slices.map(({ from, to }) =>
    rootOf({ layout: { slots: [], size: to - from }, values: values.subarray(from, to) }),
  );
}

/** Returns the model root of round 0. */
export const rootOf = (params: Params): Digest =>
  modelRoot({ params, momentum: new Float32Array(params.layout.size) }, nativeSha256);

/** Throws a ConfigError (`tiers/slice`) for a slice, which lacks the weights of larger tiers. */
function assertFullModel({ config, name }: Pretrained): void {
  const { tier } = tierOf(config, name);
  if (tier > 0) throw slice(name, tier, 'creating a run');
}

const slice = (name: string, tier: number, what: string): ConfigError =>
  new ConfigError('tiers/slice', `${name} is tier ${tier}, and ${what} needs the full model`, {
    hint: 'name the folder that its tiers were exported from with --base',
  });

/** Returns the reference of a run's base: the worker's own, else one from the spec. Throws `base/missing`. */
export function referenceOf({ from, files }: Start, base: string): string {
  const reference = base || from.find(isHubReference);
  if (reference !== undefined) return reference;
  throw new ConfigError('base/missing', 'this run starts from a published model', {
    hint: `name its files with --base: ${files.map(({ name }) => name).join(', ')}`,
  });
}

/** Opens the base model of a run. Throws a ConfigError (`base/other`) if it is not the one in the spec. */
export async function openBaseOf(
  start: Start,
  settings: BaseSettings,
  options: OpenBase,
): Promise<BaseModel> {
  const reference = referenceOf(start, settings.base);
  const wanted = { ...options, wanted: start.files };
  const base = await openBase({ ...settings, base: reference }, wanted);
  if (base.sliceHashes === undefined) assertSameBase(base, start);
  else assertSameSlices({ ...base, rings: base.sliceHashes }, start);
  const { tiers: _, ...full } = base.tier?.spec ?? base.spec;
  assertSameShape(full, start);
  return base;
}

/** Opens the full base model of a run, whatever tiers the run has. Throws as `openBaseOf` does. */
export async function openFullBaseOf(
  start: Start,
  settings: BaseSettings,
  options: OpenBase,
): Promise<BaseModel> {
  const base = await openBaseOf(start, settings, options);
  const { tier = 0 } = base.tier?.spec.tiers ?? {};
  if (tier > 0) throw slice(base.name, tier, 'recomputing a run');
  return base;
}

/** Returns the hub reference with the commit that was opened; empty if the base is not from the hub. */
function hintsOf(base: string, path: string): readonly string[] {
  if (!isHubReference(base)) return [];
  const { repository, revision, file } = parseHubReference(base);
  const commit = path.match(/[0-9a-f]{40}/g)?.at(-1) ?? revision;
  return [`hf:${repository}@${commit}${file === undefined ? '' : `/${file}`}`];
}

/** Returns the base as it is stored in a folder: a path is made absolute, so that any working directory will do. */
export const lastingBase = (base: string): string =>
  base === '' || isHubReference(base) ? base : resolve(base);

/** Returns the local path of the base, downloading it from the hub if needed. */
async function localBase(base: string, { wanted, onNotice, signal }: OpenBase): Promise<string> {
  if (base === '') {
    throw new ConfigError('base/missing', 'a pretrained model needs a base to start from', {
      hint: 'name it with --base: a folder, a .gguf file or hf:owner/name',
    });
  }
  if (!isHubReference(base)) return base;
  return fetchModel(base, { onProgress: downloadReporter(base, onNotice), signal, wanted });
}

/** Returns the full model if the worker is a helper, which stores all of it. */
const fullIfHelping = (spec: DecoderSpec): DecoderSpec =>
  spec.tiers?.helps ? { ...spec, tiers: { ...spec.tiers, tier: 0, helps: false } } : spec;

/** Returns all weights in the layout of the trained model, which may be in slices. */
async function flatWeights(
  { spec, tensors }: Pretrained,
  trained: DecoderSpec,
): Promise<Float32Array> {
  const { slots, size } = modelLayout(trained);
  const offsets = new Map(slots.map(({ name, offset }) => [name, offset]));
  const { ffn, tiers } = trained;
  const values = new Float32Array(size);
  for (const tensor of modelOf(spec).tensors) {
    const weights = await readFinite(tensor.name, tensors.get(tensor.name)!);
    const slices = tiers
      ? sliceTensor(tensor, weights, tiers, ffn)
      : [[tensor.name, weights] as const];
    for (const [name, part] of slices) values.set(part, offsets.get(name)!);
  }
  return values;
}
