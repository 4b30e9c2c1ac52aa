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
 * Exchange settings of a small GPT: four workers send each chunk of the full model, rotated, so that coding errors are
 * noise that averages out. The outer step is shorter and has momentum (docs/decisions/0038-trellis-code.md).
 */
const rotated = {
  owners: 4,
  fragments: 1,
  packing: 'trellis',
  residual: 'none',
  outerLearningRate: 0.6,
  momentum: 0.5,
} as const satisfies PartialSettings;

const plainAveraging = { outerLearningRate: 1, momentum: 0 } as const;

/**
 * Exchange settings of a larger GPT, of which one event carries too little: two workers send each part, one half of the
 * model per round.
 */
export const inHalves = {
  owners: 2,
  fragments: 2,
  packing: 'auto',
  residual: 'owned',
  ...plainAveraging,
} as const satisfies PartialSettings;

/** Settings that were not measured with rotated chunks: a run that sets one of them uses `inHalves` instead. */
const unmeasuredWithRotated = ['eventBudget', 'optimizer'] as const;
/** Largest model whose chunks are rotated by default, in parameters without embeddings. */
const MAX_ROTATED_PARAMETERS = 1_000_000;

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
  ...rotated,
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
  packing: 'auto',
  owners: 1,
  residual: 'owned',
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

/** Small transformers over patches: two workers send each part of the full model, so all of it moves from round 1. */
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
  packing: 'auto',
  owners: 2,
  topk: 0.3,
  residual: 'owned',
  roundTimeout: 600,
};

const forecaster: PartialSettings = { ...patches, context: 96, rounds: 8 };

const vit: PartialSettings = { ...patches, patch: 4, rounds: 12 };

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

/** Settings for rules that compare contributions: all workers send all values. */
const comparable: PartialSettings = { ...alone, packing: 'int4' };

/** Reports whether the packing fits its payload into one event. */
export const packsForOneEvent = ({ packing }: PartialSettings): boolean =>
  packing === 'auto' || packing === 'trellis';

/** Initial settings by model; `completeSettings` puts further layers over them. */
export const presets = {
  'char-gpt': gpt,
  gpt,
  linear: regression,
  mlp: regression,
  pretrained,
  forecaster,
  vit,
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
const UNMEASURED =
  "rotated chunks were measured only with the preset's exchange settings, optimizer and event " +
  'budget, and up to a million parameters; set these yourself for other values';

/**
 * Returns how requested settings change the preset: the reference's wire format, a single worker, tiers, or a large
 * model. Only presets that pack into one event are adapted. Returns undefined if the preset fits.
 */
function fitting(preset: PartialSettings, requested: PartialSettings): Fitting | undefined {
  const isPacked = packsForOneEvent(preset);
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
  if (isPacked && (isAlone || tiers > 0)) {
    const name = tiers > 0 ? 'tiers' : 'sync';
    return { settings: alone, because: because(name), why: WHOLE_DELTAS };
  }
  // a run that names this packing keeps the settings that go with it
  const keepsPacking = requested.packing === rotated.packing;
  const cause = preset === gpt && !keepsPacking ? unmeasured(requested) : '';
  return cause === '' ? undefined : { settings: inHalves, because: cause, why: UNMEASURED };
}

/** Names the requested settings with which rotated chunks were not measured; empty if there are none. */
function unmeasured(requested: PartialSettings): string {
  const { width = 0, layers = 0, ffn = 0 } = { ...gpt, ...requested };
  // without embeddings, which are few
  const parameters = layers * width * (4 * width + 2 * ffn);
  if (parameters > MAX_ROTATED_PARAMETERS) return `${formatCount(parameters)} parameters`;
  return spelled(requested, [...(Object.keys(rotated) as SettingName[]), ...unmeasuredWithRotated]);
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
