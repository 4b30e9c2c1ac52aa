/** Starting values of the settings, per model, chosen by measurement (docs/benchmarks.md). */

import { type RuleName, ruleForms, usualAggregation } from '../aggregation.ts';
import { fields } from '../options.ts';
import { completeSettings, type PartialSettings, type Settings } from '../settings.ts';
import { defaultsOf } from './spec-table.ts';

/** The defaults of the table. */
const common: PartialSettings = defaultsOf(fields);

/**
 * Exchange settings of a small GPT: four workers send each chunk of the full model, rotated, so that rounding errors
 * are noise that averages out. The outer step is shorter and has momentum (docs/decisions/0034-rotated-chunks.md).
 */
const rotated = {
  owners: 4,
  fragments: 1,
  packing: 'rotated',
  residual: 'none',
  outerLearningRate: 0.6,
  momentum: 0.5,
} as const satisfies PartialSettings;

const plainAveraging = { outerLearningRate: 1, momentum: 0 } as const;

/** How they share a larger GPT, of which an event carries too little: two send each part of one half in turn. */
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

/** What the reference's wire can carry, under any model: whole deltas with classic error feedback. */
const referenceWire: PartialSettings = {
  owners: 0,
  fragments: 1,
  residual: 'feedback',
  ...plainAveraging,
};

/**
 * One worker alone need not say less than it learned: its relay is its own, and nobody has to agree with it. Workers
 * of several tiers each send all that they have, so that nobody has to know who has what.
 */
const alone: PartialSettings = { ...referenceWire, packing: 'int8' };

/** Rows that a rule can compare: everybody sends all values. */
const comparable: PartialSettings = { ...alone, packing: 'int4' };

/** Whether a payload of these settings is made for one event, in whatever code says most there. */
export const packsForOneEvent = ({ packing }: PartialSettings): boolean =>
  packing === 'auto' || packing === 'rotated';

/** Settings to start from, by model; layers over them go to `completeSettings`. */
export const presets = {
  'char-gpt': gpt,
  gpt,
  linear: regression,
  mlp: regression,
  pretrained,
  forecaster,
  vit,
} satisfies Record<string, PartialSettings>;

/**
 * What being asked for something changes of what was not asked for: the reference's wire, a worker alone, tiers, or a
 * large model. Only the presets that pack for one event are so adapted.
 */
function fitting(preset: PartialSettings, asked: PartialSettings): PartialSettings {
  const isPacked = packsForOneEvent(preset);
  if (asked.profile === 'nostrain/0')
    return isPacked ? { optimizer: 'adamw', ...referenceWire } : referenceWire;
  const isAlone = asked.sync?.strategy === 'strict' && asked.sync.workers === 1;
  const { tiers = 0, rule = usualAggregation.rule } = asked;
  if (ruleForms[rule] !== 'mean')
    return { ...(isPacked && comparable), hostile: hostileOf(asked, rule) };
  if (isPacked && (isAlone || tiers > 0)) return alone;
  return preset === gpt && !sharesRotated(asked) ? inHalves : {};
}

function sharesRotated(asked: PartialSettings): boolean {
  const chosen = [...Object.keys(rotated), ...unmeasuredWithRotated];
  const { width = 0, layers = 0, ffn = 0 } = { ...gpt, ...asked };
  // all but the embeddings, which are few
  const parameters = layers * width * (4 * width + 2 * ffn);
  return parameters <= MAX_ROTATED_PARAMETERS && chosen.every((name) => !(name in asked));
}

/** A quarter of the workers that are named or waited for, one at least; 0 where nobody knows how many there are. */
function hostileOf({ peers = [], sync }: PartialSettings, rule: RuleName): number {
  const waited = sync?.strategy === 'strict' ? sync.workers : 0;
  const workers = peers.length || waited;
  return workers === 0 || ruleForms[rule] === 'mean' ? 0 : Math.max(1, Math.floor(workers / 4));
}

/** The model that was asked for: who names a base means that. */
export const requestedModel = ({ model, base }: PartialSettings): Settings['model'] | undefined =>
  model ?? (base ? 'pretrained' : undefined);

/** Settings as asked, over their preset as it fits them. */
export const combineSettings = (preset: PartialSettings, asked: PartialSettings): Settings =>
  completeSettings(preset, fitting(preset, asked), asked);
