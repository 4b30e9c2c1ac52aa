/** Opens the model that a run has trained, and uses it: writes text, forecasts series, classifies pictures. */
import { stat } from 'node:fs/promises';
import { ConfigError } from '../../base/errors.ts';
import type { Arranged, Decoding } from '../../model/architectures/architecture.ts';
import { frozenDecoder } from '../../model/architectures/decoder.ts';
import { expertIndexOf } from '../../model/architectures/experts.ts';
import { forecastsPerNumber, QUANTILES } from '../../model/architectures/patches.ts';
import { sliceIndexOf, tierWith } from '../../model/architectures/slices.ts';
import { decoderOf, modelOf } from '../../model/architectures/table.ts';
import { type Series, scaled, scaleOf } from '../../model/data/series.ts';
import { type Tokenizer, tokenizers } from '../../model/data/tokens.ts';
import { decodingOf } from '../../model/decoding.ts';
import { asNumbers } from '../../model/forms/table.ts';
import { gptSpec, optimizerOf } from '../../model/from-settings.ts';
import { modelLayout } from '../../model/parameters.ts';
import { narrowFeeds } from '../../model/precision.ts';
import { type Continuation, continueText } from '../../model/sample.ts';
import { completeSettings, type PartialSettings, type Settings } from '../../run/settings.ts';
import type { ForecasterSpec, VitSpec } from '../../run/spec/model-spec.ts';
import { presets } from '../../run/spec/presets.ts';
import { assertSameBase } from '../../run/spec/start.ts';
import type { Layout } from '../../tensor/params.ts';
import { tensorsOf } from '../../trainer/runtime.ts';
import { frozenOf } from '../../trainer/setup.ts';
import { createTextReader } from '../../trainer/text-reader.ts';
import { openPictures, openSeries, type Sources } from '../data/sources.ts';
import { prepareTask } from '../data/task.ts';
import { requireEngine } from '../engine/onnxruntime.ts';
import { createTrainer, physicalCores } from '../engine/trainer.ts';
import { type BaseModel, type OpenBase, openBase } from '../pretrained/base-model.ts';
import { runFolderOf } from './local-runs.ts';
import { readStateFile } from './state-file.ts';
import { keptBase, keptSettings } from './stored-settings.ts';

export interface TextWriter {
  readonly tokenizer: Tokenizer;
  /** Continues the prompt; `onToken` is called with each token as soon as it is drawn. */
  write(request: Continuation, onToken: (token: number) => void): Promise<void>;
  close(): Promise<void>;
}

/** The trained parameters of a run, and its settings. */
export interface TrainedRun {
  /** Path of the run's folder, or of a state file. */
  readonly path: string;
  readonly isFolder: boolean;
  readonly settings: Settings;
  readonly layout: Layout;
  readonly values: Float32Array;
}

/**
 * Returns parameters in another layout, which may be of a smaller tier or leave out experts; undefined if they belong
 * to another model.
 */
export function numbersFor(
  { layout, values }: Pick<TrainedRun, 'layout' | 'values'>,
  wanted: Layout,
): Float32Array | undefined {
  const left = new Map(layout.slots.map((slot) => [slot.name, slot]));
  const ordered = new Float32Array(wanted.size);
  for (const { name, shape, offset, size } of wanted.slots) {
    const slot = left.get(name);
    if (slot?.shape.join() !== shape.join()) return undefined;
    ordered.set(values.subarray(slot.offset, slot.offset + size), offset);
    left.delete(name);
  }
  const experts = new Set(wanted.slots.map(({ name }) => expertIndexOf(name)));
  const mayLack = (name: string) =>
    sliceIndexOf(name) > 0 || (experts.size > 1 && !experts.has(expertIndexOf(name)));
  return [...left.keys()].every(mayLack) ? ordered : undefined;
}

/** Initial capacity of the key-value cache, in tokens. */
const FIRST_CAPACITY = 256;

/** Returns the programs of a published model with trained `params`, and their tensors. */
async function decodingWith(
  { model, frozen, spec, adapter, tier, precision }: BaseModel,
  params: Float32Array,
): Promise<Arranged & { readonly decoding: Decoding }> {
  const { slots } = modelLayout(model);
  const trained = new Map(
    slots.map(({ name, shape, offset, size }) => {
      // copies, so that the vector can be freed
      return [name, { elements: params.slice(offset, offset + size), shape }] as const;
    }),
  );
  if (!adapter && !tier) {
    const decoder = decoderOf(spec);
    const tensors = frozenDecoder(decoder, precision);
    const decoding = decodingOf(decoder, { tensors });
    const feeds = tensors.map((tensor) => narrowFeeds(tensor, trained.get(tensor.name)!.elements));
    return { decoding, ...decoding.arrange(Object.assign({}, ...feeds)) };
  }
  const decoding = modelOf(model).decoding!;
  const feeds = { ...(await frozenOf({ model, frozen })), ...Object.fromEntries(trained) };
  return { decoding, ...decoding.arrange(feeds) };
}

/** Opens a text writer for a published model with trained `params` in the layout of `base.model`. */
export async function openPublishedWriter(
  base: BaseModel,
  params: Float32Array,
  threads = physicalCores(),
): Promise<TextWriter> {
  requireEngine();
  // loaded late, so that all else works without the engine
  const { nodeRuntime: ort } = await import('../engine/sessions.ts');
  const { pretrained, tokenizer } = base;
  const { decoding, feeds, constants } = await decodingWith(base, params);
  const reader = createTextReader({
    ort,
    decoding,
    tensors: tensorsOf(ort, feeds),
    constants,
    capacity: pretrained.longestContext,
    first: FIRST_CAPACITY,
    threads,
  });
  return {
    tokenizer,
    write: async (request, onToken) => {
      for await (const token of continueText(reader, request)) onToken(token);
    },
    close: () => reader.close(),
  };
}

/** Opens a model trained from scratch. Throws a ConfigError (`sample/model`) if the settings are of another one. */
export async function openGptWriter(
  { path, settings, layout, values }: TrainedRun,
  threads: number | undefined,
  without?: string,
): Promise<TextWriter> {
  const tokenizer = tokenizers[settings.tokens];
  const none = new Uint8Array(settings.context + 1);
  const trainer = await createTrainer({
    model: gptSpec(settings, tokenizer.vocabulary, without),
    optimizer: optimizerOf(settings),
    batch: 1,
    data: { kind: 'tokens', shard: none, validation: none },
    device: 'cpu',
    threads,
  });
  const ordered = numbersFor({ layout, values }, trainer.layout);
  if (ordered === undefined) {
    await trainer.close();
    const sizes = `${layout.size} parameters, the model has ${trainer.layout.size}`;
    throw new ConfigError('sample/model', `${path} holds ${sizes}`, {
      hint:
        'set the sizes it was trained with: width, layers, heads, ffn, tokens (with ' +
        '--set), --context, --tiers, experts',
    });
  }
  return {
    tokenizer,
    write: async (request, onToken) => {
      const prompt = Uint8Array.from(request.prompt);
      await trainer.sample(ordered, { ...request, prompt }, onToken);
    },
    close: () => trainer.close(),
  };
}

/** Reads a run by its name or folder, or a state file. The given settings override those in the folder. */
export async function readTrainedRun(named: string, given: PartialSettings): Promise<TrainedRun> {
  const path = await runFolderOf(named);
  const { layout, values } = await readStateFile(path);
  const isFolder = (await stat(path)).isDirectory();
  const stored = isFolder ? await keptSettings(path) : {};
  const unused = { run: 'trained', relay: [] } as const;
  const isBased = given.base !== undefined && given.base !== '';
  const model = stored.model ?? (isBased ? 'pretrained' : 'char-gpt');
  // a helper stores the full model
  const folderSettings = stored.helper ? { ...stored, helper: false, tier: '0' as const } : stored;
  const settings = completeSettings(presets[model], unused, { model }, folderSettings, given);
  const run = { path, isFolder, layout, values: Float32Array.from(values) };
  return { ...run, settings: withTierOf(settings, layout) };
}

/** Sets the tier to the largest that the state contains, if the run has tiers and none is named. */
function withTierOf(settings: Settings, { slots }: Layout): Settings {
  const { tiers, tier, helperRotation } = settings;
  if (tiers === 0 || tier !== 'auto') return settings;
  const slices = 1 + Math.max(...slots.map(({ name }) => sliceIndexOf(name)));
  const largest = tierWith({ count: tiers, even: helperRotation > 0 }, slices);
  return { ...settings, tier: `${largest}` as Settings['tier'] };
}

/** A published model, and the parameters that a run has trained in the layout of `base.model`. */
export interface TrainedBase {
  readonly base: BaseModel;
  readonly values: Float32Array;
}

/**
 * Opens the published model that the run trained. Throws a ConfigError if it has none (`base/none`) or another one
 * (`base/other`).
 */
export async function openTrainedBase(run: TrainedRun, options: OpenBase): Promise<TrainedBase> {
  const { path, isFolder, settings, layout } = run;
  if (settings.model !== 'pretrained') {
    throw new ConfigError(
      'base/none',
      `${path} holds a ${settings.model} model trained from scratch`,
      {
        hint: 'only runs started with --base have a base model',
      },
    );
  }
  const kept = isFolder ? await keptBase(path) : undefined;
  const wanted = kept && settings.tiers === 0 ? { wanted: kept.files } : {};
  const base = await openBase(settings, { ...options, ...wanted });
  if (kept) assertSameBase(base, kept);
  const values = numbersFor(run, modelLayout(base.model));
  if (values === undefined) throw otherTensors(run, base, layout);
  return { base, values };
}

function otherTensors(
  { path }: TrainedRun,
  { name, model }: BaseModel,
  { slots }: Layout,
): ConfigError {
  const wanted = new Map(modelLayout(model).slots.map((slot) => [slot.name, slot.shape.join()]));
  const strange = slots.find(({ name, shape }) => wanted.get(name) !== shape.join());
  const actual = strange ? `${strange.name} as ${strange.shape.join(' x ')}` : 'too few tensors';
  return new ConfigError('base/other', `${path} does not fit ${name}: it holds ${actual}`, {
    hint: 'name the base it was trained on (--base), with the same --rank and targets',
  });
}

type From = Pick<Sources, 'corpus' | 'fixed' | 'onNotice' | 'signal'>;

/** The quantiles of one forecast value; all three are equal if the model predicts one value. */
export interface Forecast {
  readonly low: number;
  readonly middle: number;
  readonly high: number;
}

export interface SeriesForecast {
  readonly series: Series;
  /** The forecasts of each channel, one per step. */
  readonly channels: readonly (readonly Forecast[])[];
}

/** Forecasts beyond the end of the series that the run was trained on, or of another one with the same columns. */
export async function forecastSeries(run: TrainedRun, from: From): Promise<SeriesForecast> {
  const { series } = await openSeries(run.settings, from);
  const { model, trainer } = await openTrained<ForecasterSpec>(run, from);
  try {
    const { context, horizon, channels } = model;
    const scale = scaleOf(series, model);
    const window = scaled(series, scale, [series.steps - context, series.steps]);
    const numbers = await trainer.predict(run.values, window);
    const each = forecastsPerNumber(model);
    const at = (step: number, channel: number, quantile: number) =>
      numbers[(step * channels + channel) * each + quantile]! * scale.deviation[channel]! +
      scale.mean[channel]!;
    const forecast = (step: number, channel: number): Forecast => {
      const last = each === QUANTILES.length ? each - 1 : 0;
      const [low, high] = [at(step, channel, 0), at(step, channel, last)];
      return { low, middle: at(step, channel, last / 2), high };
    };
    return {
      series,
      channels: Array.from({ length: channels }, (_, channel) =>
        Array.from({ length: horizon }, (_, step) => forecast(step, channel)),
      ),
    };
  } finally {
    await trainer.close();
  }
}

/** A picture as the model reads it, and the probability of each class. */
export interface Guess {
  readonly pixels: Uint8Array;
  readonly shares: readonly number[];
  /** Its true class, if known. */
  readonly label?: number;
}

export interface Guesses {
  readonly classes: readonly string[];
  readonly model: Pick<VitSpec, 'pixels' | 'channels'>;
  readonly guesses: readonly Guess[];
}

/** Classifies one picture, whose bytes `picture` returns at the model's size, or `count` validation pictures. */
export async function guessPictures(
  run: TrainedRun,
  from: From,
  {
    picture,
    count,
  }: { readonly picture?: (model: VitSpec) => Promise<Uint8Array>; readonly count: number },
): Promise<Guesses> {
  const { pictures } = await openPictures(run.settings, from);
  const { model, trainer, data } = await openTrained<VitSpec>(run, from);
  try {
    const size = model.pixels * model.pixels * model.channels;
    const validation = data.kind === 'images' ? data.validation : undefined;
    const shown = picture
      ? [{ pixels: await picture(model) }]
      : Array.from({ length: Math.min(count, validation?.labels.length ?? 0) }, (_, i) => ({
          pixels: validation!.pixels.subarray(i * size, (i + 1) * size),
          label: validation!.labels[i]!,
        }));
    const guesses: Guess[] = [];
    for (const each of shown) {
      const logits = await trainer.predict(run.values, asNumbers(each.pixels));
      guesses.push({ ...each, shares: softmax(logits) });
    }
    return { classes: pictures.classes, model, guesses };
  } finally {
    await trainer.close();
  }
}

function softmax(logits: Float32Array): readonly number[] {
  const most = Math.max(...logits);
  const weights = Array.from(logits, (value) => Math.exp(value - most));
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / all);
}

/** Opens the model for this data. Throws a ConfigError (`sample/model`) if the parameters belong to another one. */
async function openTrained<M extends ForecasterSpec | VitSpec>(run: TrainedRun, from: From) {
  const settings = { ...run.settings, shard: { index: 1, count: 1 } };
  const task = await prepareTask(settings, from);
  const trainer = await createTrainer({ ...task, batch: 1, device: 'cpu', threads: 1 });
  if (trainer.layout.size === run.layout.size) return { ...task, model: task.model as M, trainer };
  await trainer.close();
  const sizes = `${run.layout.size} parameters; for this data the model has ${trainer.layout.size}`;
  throw new ConfigError('sample/model', `${run.path} holds ${sizes}`, {
    hint: 'name the data it was trained on (--corpus), and the same sizes',
  });
}
