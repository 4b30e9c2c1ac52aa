/**
 * The published model that training starts from: fetched or opened as settings say, its files hashed, and made into
 * what is trained. No weight is read before it is asked for.
 */
import { resolve } from 'node:path';
import { toHex, utf8 } from '../../base/bytes.ts';
import { canonicalJson, type Json } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import { modelRoot } from '../../consensus/roots.ts';
import type { LoraSpec } from '../../model/adapters/lora.ts';
import { sliceTensor } from '../../model/architectures/slices.ts';
import { type AnyModel, modelOf } from '../../model/architectures/table.ts';
import { adapterOf, trainedOf } from '../../model/from-settings.ts';
import { initialParameters, modelLayout, sliceRanges } from '../../model/parameters.ts';
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
import { fetchModel, isHubReference, parseHubReference } from './hub.ts';
import { hashFiles, openLocalModel } from './model-files.ts';

/** A base and what is trained of it. */
export interface BaseModel extends BaseIdentity {
  readonly name: string;
  /** Where others may get it: of the hub, at the revision that was opened. */
  readonly from: readonly string[];
  readonly pretrained: Pretrained;
  readonly tokenizer: PublishedTokenizer;
  /** The base, for windows of the run's context. */
  readonly spec: DecoderSpec;
  /** Undefined where all parameters are trained. */
  readonly adapter: LoraSpec | undefined;
  /** In a run with tiers, */
  readonly tier: BaseTier | undefined;
  /** and the SHA-256 of its numbers in each slice that it has. */
  readonly sliceHashes: readonly Digest[] | undefined;
  /** What is trained: its layout is that of the run's parameters. */
  readonly model: AnyModel;
  /** The frozen tensors, each read when needed. Throws a ConfigError if a number is not finite. */
  frozen(): Promise<Readonly<Record<string, FrozenNumbers>>>;
  /** The parameters of the first round: seeded adapters, which change nothing yet, or the base's own weights. */
  first(seed: number): Promise<Float32Array>;
}

/** The settings that say which base, and what of it is trained. */
export type BaseSettings = Pick<Settings, 'base' | 'rank' | 'alpha' | 'targets' | 'seed'> &
  Partial<Pick<Settings, 'tiers' | 'tier' | 'tierStrategy' | 'helper' | 'helperRotation'>> & {
    /** Tokens of a window to train on; the longest there are when left out. */
    readonly context?: number;
    /** How the base beside adapters is held; f32 when left out. */
    readonly basePrecision?: Precision;
  };

export interface OpenBase {
  /** What its files must be, where that is known: others are not downloaded. */
  readonly wanted?: readonly BaseFile[] | undefined;
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

export type OpensBase = (settings: Settings, options: OpenBase) => Promise<BaseModel>;

/** Opens the base of these settings. Throws a ConfigError (`base/missing`, `model/…`, `adapter/…`). */
export async function openBase(settings: BaseSettings, options: OpenBase): Promise<BaseModel> {
  const path = await localBase(settings.base, options);
  const { context, basePrecision, tiers = 0 } = settings;
  const { tier = 'auto', tierStrategy = 'auto', helper = false, helperRotation = 0 } = settings;
  const asked = { tiers, tier, tierStrategy, helper, helperRotation };
  const { signal, onNotice } = options;
  const part =
    tiers === 0 ? undefined : await openBaseTier(path, asked, { context, onNotice, signal });
  const pretrained = part?.pretrained ?? (await openLocalModel(path, { context }));
  const { spec, tokenizer, name } = pretrained;
  const trained = part?.spec ?? spec;
  const adapter = adapterOf(settings);
  if (helper && adapter !== undefined) {
    throw new ConfigError(
      'adapter/helper',
      'a helper trains all parameters, and no adapters: its slice of the base is ' +
        'another one every few rounds',
      { hint: 'give --rank 0, or leave helper out' },
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
    tokenizer,
    tier: part,
    sliceHashes: sliceHashes?.map(({ sha256 }) => sha256),
    from: hintsOf(settings.base, path),
    files: part
      ? identityOfTiers(part, sliceHashes!)
      : await hashFiles(path, pretrained.files, options.signal),
    tokenizerSha256: hashTokenizer(pretrained),
    frozen: async () => (adapter === undefined ? {} : readers(pretrained)),
    first: async (of) =>
      adapter === undefined
        ? await flatWeights(pretrained, fullIfHelping(trained))
        : initialParameters(model, of),
  };
}

/** What the spec of a run says of a base, which was opened without tiers; `more` are other sources of it. */
export async function startFrom(
  base: BaseModel,
  { rank, alpha, targets, tiers: count = 0 }: BaseSettings,
  more: readonly string[] = [],
): Promise<Start> {
  const { files, tokenizerSha256, spec, pretrained, from } = base;
  if (count > 0) assertFullModel(pretrained);
  const tiers = count > 0 ? { count, own: 0 } : undefined;
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

/** The model root of round 0; of a model in slices that of each. */
function rootsOf(trained: DecoderSpec, values: Float32Array): Digest | readonly Digest[] {
  const layout = modelLayout(trained);
  if (!trained.tiers) return rootOf({ layout, values });
  return sliceRanges(trained).map(({ from, to }) =>
    rootOf({ layout: { slots: [], size: to - from }, values: values.subarray(from, to) }),
  );
}

const rootOf = (params: Params): Digest =>
  modelRoot({ params, momentum: new Float32Array(params.layout.size) }, nativeSha256);

/** Throws a ConfigError for a slice: what the larger tiers of a run hold is not in it. */
function assertFullModel({ config, name }: Pretrained): void {
  const { tier } = tierOf(config, name);
  if (tier > 0) throw slice(name, tier, 'a run is made');
}

const slice = (name: string, tier: number, what: string): ConfigError =>
  new ConfigError('tiers/slice', `${name} is tier ${tier}, and ${what} with the full model`, {
    hint: 'name the folder that its tiers were exported from with --base',
  });

/** Where the base of a run comes from: from where the worker says, or else from where the run does. */
export function referenceOf({ from, files }: Start, base: string): string {
  const reference = base || from.find(isHubReference);
  if (reference !== undefined) return reference;
  throw new ConfigError('base/missing', 'this run starts from a published model', {
    hint: `name its files with --base: ${files.map(({ name }) => name).join(', ')}`,
  });
}

/** Opens the base of a run and holds it against what the run says. */
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
  if (canonicalJson(shapeOf(full) as never) === canonicalJson(start.model as never)) return base;
  throw new ConfigError('base/other', 'the run says another shape of this model than its files', {
    hint: 'whoever made the run wrote something false in it; ask for a new one',
  });
}

/** The same for who needs all of it, whatever tiers the run has. */
export async function openFullBaseOf(
  start: Start,
  settings: BaseSettings,
  options: OpenBase,
): Promise<BaseModel> {
  const base = await openBaseOf(start, settings, options);
  const { own = 0 } = base.tier?.spec.tiers ?? {};
  if (own > 0) throw slice(base.name, own, 'all of a run is recomputed');
  return base;
}

/** The reference of the hub with the commit that it meant. */
function hintsOf(base: string, path: string): readonly string[] {
  if (!isHubReference(base)) return [];
  const { repository, revision, file } = parseHubReference(base);
  const commit = path.match(/[0-9a-f]{40}/g)?.at(-1) ?? revision;
  return [`hf:${repository}@${commit}${file === undefined ? '' : `/${file}`}`];
}

/** The base as it is kept in a folder: what is a path stays the same one wherever the command is given next. */
export const lastingBase = (base: string): string =>
  base === '' || isHubReference(base) ? base : resolve(base);

/** Where the base lies on this machine, after it was downloaded. */
async function localBase(base: string, { wanted, onNotice, signal }: OpenBase): Promise<string> {
  if (base === '') {
    throw new ConfigError('base/missing', 'a pretrained model needs a base to start from', {
      hint: 'name it with --base: a folder, a .gguf file or hf:owner/name',
    });
  }
  if (!isHubReference(base)) return base;
  const told = new Set<string>();
  const onProgress = (file: string, _have: number, of: number) => {
    if (told.has(file)) return;
    told.add(file);
    onNotice(`downloading ${file} of ${base}, ${Math.ceil(of / 1e6)} MB`);
  };
  return fetchModel(base, { onProgress, signal, wanted });
}

/** Of everything by which text becomes tokens. */
function hashTokenizer({
  tokenizerFiles: { tokenizer, config },
  chatTemplate,
}: Pretrained): string {
  const content = { tokenizer, config, chatTemplate: chatTemplate ?? null };
  return toHex(nativeSha256(utf8(canonicalJson(content as Json))));
}

/** What reads each tensor, so that a base in few bits never lies in memory in f32. */
const readers = ({ tensors }: Pretrained): Readonly<Record<string, FrozenNumbers>> =>
  Object.fromEntries([...tensors].map(([name, tensor]) => [name, () => readFinite(name, tensor)]));

/** A helper has all of the model. */
const fullIfHelping = (spec: DecoderSpec): DecoderSpec =>
  spec.tiers?.helps ? { ...spec, tiers: { ...spec.tiers, own: 0, helps: false } } : spec;

/** All weights by the layout of what is trained of it, which may be kept in slices. */
async function flatWeights(
  { spec, tensors }: Pretrained,
  trained: DecoderSpec,
): Promise<Float32Array> {
  const { slots, size } = modelLayout(trained);
  const offsets = new Map(slots.map(({ name, offset }) => [name, offset]));
  const { ffn, tiers } = trained;
  const values = new Float32Array(size);
  for (const tensor of modelOf(spec).tensors) {
    const own = await readFinite(tensor.name, tensors.get(tensor.name)!);
    const slices = tiers ? sliceTensor(tensor, own, tiers, ffn) : [[tensor.name, own] as const];
    for (const [name, part] of slices) values.set(part, offsets.get(name)!);
  }
  return values;
}
