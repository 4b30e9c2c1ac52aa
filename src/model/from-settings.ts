/** Derives the model, its parameter layout and the optimizer from settings, before any data is read. */
import { ConfigError } from '../base/errors.ts';
import { type InputName, isImported } from '../run/data-forms.ts';
import { type ExpertGroup, groupsOf } from '../run/groups.ts';
import type { SpecInput } from '../run/input.ts';
import { type AdapterName, completeSettings, type Settings } from '../run/settings.ts';
import type {
  DecoderSpec,
  Experts,
  GptSpec,
  ModelSpec,
  OptimizerSpec,
  Precision,
  Tiers,
} from '../run/spec/model-spec.ts';
import { presets } from '../run/spec/presets.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import { decoderIn, type Start } from '../run/spec/start.ts';
import type { Layout } from '../tensor/params.ts';
import { type LoraSpec, loraModel } from './adapters/lora.ts';
import type { DataForm } from './architectures/architecture.ts';
import type { AnyModel } from './architectures/table.ts';
import { linearTruth } from './data/regression.ts';
import { syntheticSeriesSizes, syntheticShapeSizes } from './data/synthetic.ts';
import { tokenizers } from './data/tokens.ts';
import { modelLayout } from './parameters.ts';

/** The settings that determine the architecture. */
type ModelSettings = Pick<
  Settings,
  'model' | 'tokens' | 'width' | 'layers' | 'heads' | 'context' | 'ffn' | 'hidden'
> &
  Partial<TierSettings> &
  Partial<MixtureSettings> &
  Partial<Pick<Settings, InputName>>;

type MixtureSettings = Pick<Settings, 'experts' | 'expertsPerToken' | 'groups' | 'group'>;

/** Weight of the load-balancing loss (arXiv 2101.03961, section 2.2). */
const BALANCE = 0.01;

/** Returns the experts of a model, if it has any; `without` names a group to leave out. */
function expertsIn(
  { experts = 0, expertsPerToken = 1, groups = [], group = '' }: Partial<MixtureSettings>,
  without?: string,
): { readonly experts?: Experts } {
  if (experts === 0) return {};
  const all = groupsOf({ groups });
  if (without !== undefined) assertLeavesOne(all, without);
  const kept = all.filter(({ name }) => name !== without).map((group) => group.experts);
  const numbers = all.length === 0 ? [Array.from({ length: experts }, (_, i) => i)] : kept;
  const perToken = expertsPerToken === 2 ? 2 : 1;
  const home = all.find(({ name }) => name === group)?.experts;
  return { experts: { groups: numbers, perToken, balance: BALANCE, ...(home && { home }) } };
}

type TierSettings = Pick<Settings, 'tiers' | 'tier' | 'helper' | 'helperRotation'>;

/** What a run specifies about its model in addition to settings. */
export interface ModelParts {
  /** The published model to start from. */
  readonly start?: Start | null;
  /** Sizes of the series or pictures. */
  readonly input?: SpecInput | null;
}

/** Throws a ConfigError (`model/group`) unless the model has this group and another one. */
function assertLeavesOne(groups: readonly ExpertGroup[], without: string): void {
  if (groups.some(({ name }) => name === without) && groups.length > 1) return;
  const names = groups.map(({ name }) => name).join(', ');
  throw new ConfigError('model/group', `the model cannot be cut down by the group ${without}`, {
    hint: groups.length > 1 ? `its groups are ${names}` : 'it needs at least two groups',
  });
}

/** Returns the tiers of a model, if it has any; with `--tier auto` as the full model. */
export function tiersIn(settings: Partial<TierSettings>): { readonly tiers?: Tiers } {
  const { tiers = 0, tier = 'auto', helper = false, helperRotation = 0 } = settings;
  if (tiers === 0) return {};
  const even = helperRotation > 0 && { even: true, helps: helper };
  return { tiers: { count: tiers, tier: tier === 'auto' ? 0 : Number(tier), ...even } };
}

/** Returns the model of these settings. Without `start` and `input`, sizes are those of synthetic data. */
export function modelOf(settings: ModelSettings, { start, input }: ModelParts = {}): AnyModel {
  if (isImported(settings)) return parametersOf(start);
  if (settings.model !== 'pretrained')
    return seededModelOf(settings, input ?? usualInput(settings));
  if (!start) {
    throw new ConfigError('base/missing', 'a pretrained model needs a base to start from', {
      hint: 'use --base with a folder, a .gguf file or hf:owner/name',
    });
  }
  const decoder = { ...decoderIn(start, settings.context), ...tiersIn(settings) };
  return trainedOf(decoder, adapterOf(start.adapter));
}

/** Returns the parameters of an imported model, whose graph is not in the spec: it cannot train or predict. */
function parametersOf(start: Start | null | undefined): AnyModel {
  if (start?.model.architecture !== 'onnx') throw noGraph();
  const { data, tensors } = start.model;
  return {
    architecture: 'own',
    data,
    tensors: tensors.map(({ name, shape }) => ({ name, shape, start: 'zeros' })),
    predict: () => {
      throw noGraph();
    },
    losses: () => {
      throw noGraph();
    },
  };
}

const noGraph = (): ConfigError =>
  new ConfigError('base/missing', 'this command does not take models of .onnx files', {
    hint: 'train them with run-training or in a certified run, and use them with model export',
  });

function seededModelOf(settings: ModelSettings, input: SpecInput | null): ModelSpec {
  if (input !== null) return patchModel(settings, input);
  const features = linearTruth.weights.length;
  if (settings.model === 'linear') return { architecture: 'linear', features };
  if (settings.model === 'mlp') {
    return { architecture: 'mlp', features, hidden: settings.hidden };
  }
  return gptSpec(settings, tokenizers[settings.tokens].vocabulary);
}

/** Returns the transformer of these settings for a vocabulary. */
export function gptSpec(
  settings: Pick<Settings, 'width' | 'layers' | 'heads' | 'context' | 'ffn'> &
    Partial<TierSettings> &
    Partial<MixtureSettings>,
  vocabulary: number,
  without?: string,
): GptSpec {
  const { width, layers, heads, context, ffn } = settings;
  const sizes = { vocabulary, width, layers, heads, context, ffn };
  return {
    architecture: 'gpt',
    ...sizes,
    ...tiersIn(settings),
    ...expertsIn(settings, without),
  };
}

/** Returns a transformer over patches of series or pictures with the sizes in `input`. */
export function patchModel(settings: ModelSettings, input: SpecInput): ModelSpec {
  const { width, layers, heads, context, ffn } = settings;
  const blocks = { width, layers, heads, ffn };
  if (input.form === 'images') {
    const { pixels, channels, classes, patch } = input;
    return { architecture: 'vit', pixels, channels, classes, patch, ...blocks };
  }
  const { channels, horizon, patch, forecastError: error, scaling } = input;
  return {
    architecture: 'forecaster',
    channels,
    context,
    horizon,
    patch,
    ...blocks,
    error,
    scaling,
  };
}

/** Channels of a step or pixel, and the number of classes. */
export interface DataSizes {
  readonly channels: number;
  readonly classes?: number;
}

/** Returns the settings that follow from the data of an imported model. */
export const sizeSettings = (
  form: DataForm,
): Partial<Pick<Settings, 'pixels' | 'context' | 'horizon'>> => {
  if (form.kind === 'images') return { pixels: form.pixels };
  if (form.kind === 'series') return { context: form.context, horizon: form.horizon };
  return form.kind === 'tokens' ? { context: form.context } : {};
};

/** Returns the input sizes for a run spec; null if the model reads neither series nor pictures. */
export function inputOf(
  settings: Pick<Settings, 'model' | InputName>,
  sizes?: DataSizes,
): SpecInput | null {
  const { horizon, patch, forecastError, scaling, pixels } = settings;
  if (settings.model === 'forecaster') {
    const { channels } = sizes ?? syntheticSeriesSizes;
    return { form: 'series', channels, horizon, patch, forecastError, scaling };
  }
  if (settings.model !== 'vit') return null;
  const { channels, classes = 0 } = sizes ?? syntheticShapeSizes;
  return { form: 'images', channels, classes, pixels, patch };
}

const usualInput = (settings: ModelSettings): SpecInput | null =>
  inputOf(completeSettings(presets[settings.model], { run: 'run', relay: [] }, settings));

/** Returns the model to train on a base: the base itself, or adapters on a frozen base of `precision`. */
export const trainedOf = (
  base: DecoderSpec,
  adapter: LoraSpec | undefined,
  precision?: Precision,
): AnyModel => (adapter === undefined ? base : loraModel(base, adapter, precision));

/** Returns the adapters of these settings; undefined if all parameters are trained. */
export const adapterOf = ({
  rank,
  alpha,
  targets,
}: Pick<Settings, AdapterName>): LoraSpec | undefined =>
  rank === 0 ? undefined : { rank, alpha, targets };

/** Returns the parameter layout of these settings. */
export const layoutOf = (settings: ModelSettings, parts?: ModelParts): Layout =>
  modelLayout(modelOf(settings, parts));

type RunOfModel = Pick<RunSpec, 'training' | 'start' | 'input'> &
  Partial<Pick<RunSpec, 'tiers' | 'mixture'>>;

/** Returns the model that a run trains; in a run with tiers that of `tier`, default the full model. */
export const modelOfRun = (spec: RunOfModel, tier = 0): AnyModel =>
  modelOf(
    {
      ...spec.training,
      ...spec.mixture,
      tiers: spec.tiers ?? 0,
      tier: `${tier}` as Settings['tier'],
    },
    spec,
  );

/** Returns the parameter layout of a run. */
export const layoutOfRun = (spec: RunOfModel): Layout => modelLayout(modelOfRun(spec));

/** Returns the inner optimizer and its schedule over the whole run. */
export function optimizerOf(settings: Settings): OptimizerSpec {
  const { clipNorm } = settings;
  const schedule = {
    learningRate: settings.localLearningRate,
    warmupSteps: settings.warmupSteps,
    totalSteps: settings.finalShare === 1 ? 0 : settings.rounds * settings.innerSteps,
    finalShare: settings.finalShare,
  };
  if (settings.optimizer === 'sgd') return { optimizer: 'sgd', schedule, clipNorm };
  const { weightDecay } = settings;
  const shared = {
    schedule,
    clipNorm,
    beta1: 0.9,
    beta2: 0.99,
    epsilon: 1e-8,
    weightDecay,
  };
  return settings.optimizer === 'muon'
    ? { optimizer: 'muon', ...shared, momentum: 0.9, stepSize: 1.5 }
    : { optimizer: 'adamw', ...shared };
}
