/** Starting values of the settings, per model, chosen by measurement (docs/benchmarks.md). */

import { formatCount } from '../../base/numbers.ts';
import { type RuleName, ruleForms, usualAggregation } from '../aggregation.ts';
import { fields } from '../options.ts';
import {
  completeSettings,
  type PartialSettings,
  type SettingName,
  type Settings,
  writeSettings,
} from '../settings.ts';
import { type Adaptation, adaptationsOf, type Cause } from './adaptation.ts';
import { defaultsOf } from './spec-table.ts';

/** Defaults of the options table. */
const common: PartialSettings = defaultsOf(fields);

/**
 * Exchange settings: four workers send each chunk of the model in as many bits as fit. Coding errors are noise that
 * averages out, so nothing is kept of them (docs/decisions/0038-trellis-code.md).
 */
const exchange = {
  owners: 4,
  packing: 'trellis',
  residual: 'none',
} as const satisfies PartialSettings;

const plainAveraging = { outerLearningRate: 1, momentum: 0 } as const;

/** Larger models send one half per round: at a few hundredths of a bit a value, noise hides what was learned. */
const inHalves = { fragments: 2 } as const satisfies PartialSettings;
/** Largest model that is sent whole, in parameters without embeddings. */
const MOST_SENT_WHOLE = 1_000_000;

const gpt: PartialSettings = {
  ...common,
  rounds: 20,
  innerSteps: 25,
  batchSize: 32,
  optimizer: 'muon',
  localLearningRate: 3e-3,
  warmupSteps: 50,
  finalShare: 0.1,
  weightDecay: 0.1,
  clipNorm: 1,
  ...exchange,
  outerLearningRate: 0.6,
  momentum: 0.5,
  topk: 0.3,
  roundTimeout: 600,
};

/** Adapters on a published model; with `rank: 0` all of it. */
const pretrained: PartialSettings = {
  ...common,
  context: 256,
  rounds: 8,
  innerSteps: 5,
  batchSize: 2,
  optimizer: 'adamw',
  localLearningRate: 2e-3,
  warmupSteps: 5,
  finalShare: 0.1,
  clipNorm: 1,
  ...exchange,
  roundTimeout: 600,
};

const regression: PartialSettings = {
  ...common,
  rounds: 5,
  innerSteps: 80,
  batchSize: 4,
  optimizer: 'sgd',
  localLearningRate: 0.03,
};

/** Small transformers over patches. */
const patches: PartialSettings = {
  ...common,
  width: 64,
  layers: 2,
  ffn: 128,
  innerSteps: 30,
  batchSize: 32,
  optimizer: 'muon',
  localLearningRate: 3e-3,
  warmupSteps: 20,
  finalShare: 0.1,
  weightDecay: 0.01,
  clipNorm: 1,
  ...exchange,
  topk: 0.3,
  roundTimeout: 600,
};

const forecaster: PartialSettings = { ...patches, context: 96, rounds: 8 };

const vit: PartialSettings = { ...patches, patch: 4, rounds: 12 };

/** A model from an ONNX file: all workers send parts of all of it, like the small transformers. */
const imported: PartialSettings = {
  ...patches,
  rank: 0,
  rounds: 12,
  optimizer: 'adamw',
  localLearningRate: 2e-3,
};

/** What the Python reference's `run-training STATE DATASET` starts from. */
export const referenceDefaults: PartialSettings = {
  ...regression,
  profile: 'nostrain/0',
  residual: 'none',
  rounds: 1,
  innerSteps: 500,
  batchSize: 1,
  localLearningRate: 0.01,
  outerLearningRate: 0.7,
  momentum: 0.9,
  roundTimeout: 2,
  heartbeatInterval: 60,
};

/** Settings that the reference's wire format supports for any model: full deltas with classic error feedback. */
const referenceWire: PartialSettings = {
  owners: 0,
  fragments: 1,
  residual: 'feedback',
  ...plainAveraging,
};

/**
 * Settings of a single worker, which can send everything over its own relay, and of workers with tiers, which send all
 * they have so that no assignment is needed.
 */
const alone: PartialSettings = { ...referenceWire, packing: 'int8' };

/**
 * Settings for rules and checks of single contributions: all workers send all values. No model needs as large a budget,
 * so each value gets 2 bits, and noise is a twelfth of a contribution's energy.
 */
export const comparable = {
  owners: 0,
  fragments: 1,
  eventBudget: 1_000_000_000,
  ...plainAveraging,
} as const satisfies PartialSettings;

/** Initial settings by model; `completeSettings` puts further layers over them. */
export const presets = {
  'char-gpt': gpt,
  gpt,
  linear: regression,
  mlp: regression,
  pretrained,
  forecaster,
  vit,
  'onnx-images': imported,
  'onnx-classes': imported,
  'onnx-rows': imported,
  'onnx-series': imported,
  'onnx-text': imported,
} satisfies Record<string, PartialSettings>;

/** Settings that replace those of the preset, and why. */
interface Fitting extends Cause {
  readonly settings: PartialSettings;
}

/** Requested settings as they are typed, for example `rule krum, tiers 2`. */
const spelled = (requested: PartialSettings, names: readonly SettingName[]): string =>
  Object.entries(writeSettings(requested))
    .filter(([name]) => names.some((each) => each === name))
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');

const WHOLE_DELTAS = 'every worker sends all of its values';
const FEW_BITS = 'one event has too few bits for all values of a larger model';

/**
 * Returns how requested settings change the preset: the reference's wire format, a single worker, tiers, or a large
 * model. Only presets that pack into one event are adapted. Returns undefined if the preset fits.
 */
function fitting(preset: PartialSettings, requested: PartialSettings): Fitting | undefined {
  const isPacked = preset.packing === 'trellis';
  const because = (...names: readonly SettingName[]) => spelled(requested, names);
  if (requested.profile === 'nostrain/0') {
    const settings = isPacked ? { optimizer: 'adamw' as const, ...referenceWire } : referenceWire;
    return { settings, because: because('profile'), why: 'its events hold whole deltas' };
  }
  const isAlone = requested.sync?.strategy === 'strict' && requested.sync.workers === 1;
  const { tiers = 0, rule = usualAggregation.rule } = requested;
  if (ruleForms[rule] !== 'mean') {
    const settings = { ...(isPacked && comparable), hostile: hostileOf(requested, rule) };
    return { settings, because: because('rule'), why: 'the rule compares whole deltas' };
  }
  if (isPacked && requested.validators?.length) {
    const why = 'validators measure contributions one by one';
    return { settings: comparable, because: 'validators', why };
  }
  if (isPacked && (isAlone || tiers > 0)) {
    const name = tiers > 0 ? 'tiers' : 'sync';
    return { settings: alone, because: because(name), why: WHOLE_DELTAS };
  }
  if (requested.packing === 'trellis' && !isPacked) {
    const settings = { residual: exchange.residual };
    return { settings, because: because('packing'), why: 'what it does not carry is noise' };
  }
  const { width = 0, layers = 0, ffn = 0 } = { ...gpt, ...requested };
  const parameters = layers * width * (4 * width + 2 * ffn);
  const isLarge = preset === gpt && requested.eventBudget === undefined;
  if (!isLarge || parameters <= MOST_SENT_WHOLE) return undefined;
  return { settings: inHalves, because: `${formatCount(parameters)} parameters`, why: FEW_BITS };
}

/** Returns a quarter of the named or awaited workers, at least one; 0 if their number is unknown. */
function hostileOf({ peers = [], sync }: PartialSettings, rule: RuleName): number {
  const waited = sync?.strategy === 'strict' ? sync.workers : 0;
  const workers = peers.length || waited;
  return workers === 0 || ruleForms[rule] === 'mean' ? 0 : Math.max(1, Math.floor(workers / 4));
}

/** Returns the requested model; naming a base implies `pretrained`. */
export const requestedModel = ({ model, base }: PartialSettings): Settings['model'] | undefined =>
  model ?? (base ? 'pretrained' : undefined);

/** Returns the requested settings over their preset, adapted to them. */
export const combineSettings = (preset: PartialSettings, requested: PartialSettings): Settings =>
  completeSettings(preset, fitting(preset, requested)?.settings ?? {}, requested);

/** Returns the settings that differ from the preset because of requested ones; empty if the preset fits. */
export function adaptedSettings(
  preset: PartialSettings,
  requested: PartialSettings,
): readonly Adaptation[] {
  const cause = fitting(preset, requested);
  if (cause === undefined) return [];
  return adaptationsOf(cause, { usual: preset, typed: requested, result: cause.settings });
}
