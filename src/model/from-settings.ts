/** Which model training settings describe, before any data is read: its architecture and the layout of its parameters. */
import { ConfigError } from '../base/errors.ts';
import type {
  DecoderSpec,
  GptSpec,
  ModelSpec,
  OptimizerSpec,
  Precision,
  Tiers,
} from '../run/model-spec.ts';
import type { AdapterName, Settings } from '../run/settings.ts';
import { decoderIn, type Start } from '../run/start.ts';
import type { Layout } from '../tensor/params.ts';
import { type LoraSpec, loraModel } from './adapters/lora.ts';
import type { AnyModel } from './architectures/table.ts';
import { linearTruth } from './data/regression.ts';
import { tokenizers } from './data/tokenizer.ts';
import { modelLayout } from './parameters.ts';

/** The settings that decide the architecture. */
type ModelSettings = Pick<
  Settings,
  'model' | 'tokens' | 'width' | 'layers' | 'heads' | 'context' | 'ffn' | 'hidden'
> &
  Partial<TierSettings>;

type TierSettings = Pick<Settings, 'tiers' | 'tier'>;

/** The tiers of a run's model, where it has some; of a tier that is still to be chosen, the whole model. */
function tiersIn({ tiers = 0, tier = 'auto' }: Partial<TierSettings>): {
  readonly tiers?: Tiers;
} {
  return tiers === 0 ? {} : { tiers: { count: tiers, own: tier === 'auto' ? 0 : Number(tier) } };
}

/**
 * The model of these settings, with the start of the run where that is a published one. Regressions have as many features as the made-up
 * examples of the linear truth.
 */
export function modelOf(settings: ModelSettings, start?: Start | null): AnyModel {
  if (settings.model !== 'pretrained') return seededModelOf(settings);
  if (!start) {
    throw new ConfigError('base/missing', 'a pretrained model needs a base to start from', {
      hint: 'name it with --base: a folder, a .gguf file or hf:owner/name',
    });
  }
  return trainedOf(decoderIn(start, settings.context), adapterOf(start.adapter));
}

function seededModelOf(settings: ModelSettings): ModelSpec {
  const features = linearTruth.weights.length;
  if (settings.model === 'linear') return { architecture: 'linear', features };
  if (settings.model === 'mlp') {
    return { architecture: 'mlp', features, hidden: settings.hidden };
  }
  return gptSpec(settings, tokenizers[settings.tokens].vocabulary);
}

/** The transformer of these settings over a vocabulary. */
export function gptSpec(
  settings: Pick<Settings, 'width' | 'layers' | 'heads' | 'context' | 'ffn'> &
    Partial<TierSettings>,
  vocabulary: number,
): GptSpec {
  const { width, layers, heads, context, ffn } = settings;
  const sizes = { vocabulary, width, layers, heads, context, ffn };
  return { architecture: 'gpt', ...sizes, ...tiersIn(settings) };
}

/** What is trained of a base: all of it, or the adapters alone, beside a base that is held in so many bits. */
export const trainedOf = (
  base: DecoderSpec,
  adapter: LoraSpec | undefined,
  precision?: Precision,
): AnyModel => (adapter === undefined ? base : loraModel(base, adapter, precision));

/** The adapters of these settings; undefined where all parameters are trained. */
export const adapterOf = ({
  rank,
  alpha,
  targets,
  adapterTrain,
}: Pick<Settings, AdapterName>): LoraSpec | undefined =>
  rank === 0 ? undefined : { rank, alpha, targets, train: adapterTrain };

/** The parameters of these settings, by name and shape. */
export const layoutOf = (settings: ModelSettings, start?: Start | null): Layout =>
  modelLayout(modelOf(settings, start));

/** The inner optimizer and its schedule over the whole run. */
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
