/** Specs of certified runs of small models with two MatFormer tiers, and the parameters of a worker of a tier. */
import { initialParameters, modelLayout, modelOfRun, readModelConfig } from 'nostrain/model';
import {
  completeSettings,
  presets,
  type RunSpec,
  type Settings,
  shapeOf,
  sharedNames,
  type Untyped,
  writeSettings,
} from 'nostrain/run';
import { certifiedSpec } from './certified-swarm.ts';
import { tinyConfig } from './tiny-llama.ts';

const settings = completeSettings(presets['char-gpt'], {
  ...{ model: 'char-gpt', relay: [], run: 'run', tokens: 'bytes' },
  ...{ width: 16, layers: 1, heads: 2, context: 8, ffn: 512 },
  ...{ owners: 0, fragments: 1, packing: 'int8', residual: 'feedback' },
});
const sharedOf = (all: Settings) =>
  Object.fromEntries(
    Object.entries(writeSettings(all)).filter(([name]) =>
      sharedNames.some((each) => each === name),
    ),
  );

/** Settings of a run with tiers. */
export const tieredTraining = sharedOf(settings);

/** Data and limits of such a run. */
export const tieredSections = (shards: number) => ({
  data: { kind: 'corpus', sha256: 'a'.repeat(64), bytes: 1000, shards },
  limits: {
    payloadBytes: 1_000_000,
    weightCap: settings.innerSteps * settings.batchSize,
  },
});

type Changes = Untyped & { readonly rounds?: number };

/** Tiers 0 to 2; only these founders have seats at first. */
export const tieredSpec = (
  founders: readonly number[],
  { rounds = 6, training = {}, ...document }: Changes = {},
): RunSpec =>
  certifiedSpec({
    ...{ founders, rounds },
    training: { ...tieredTraining, rounds, ...Object(training) },
    document: {
      ...{ tiers: 2, joinsPerRound: 4 },
      ...tieredSections(founders.length),
      ...document,
    },
  });

const ofBase = completeSettings(presets.pretrained, {
  ...{ model: 'pretrained', relay: [], run: 'run', context: 16 },
  ...{ owners: 0, fragments: 1, packing: 'int8', residual: 'feedback' },
});
const HASH = 'ab'.repeat(32);

/** The same of adapters on a published model of which nobody has the files: their first values follow from the seed. */
export const tieredBaseSpec = (
  founders: readonly number[],
  targets: string,
  { start = {}, rounds = 6, ...changes }: Changes = {},
): RunSpec =>
  tieredSpec(founders, {
    rounds,
    training: { ...sharedOf(ofBase), rounds },
    limits: { payloadBytes: 1_000_000, weightCap: ofBase.innerSteps * ofBase.batchSize },
    ...changes,
    start: {
      files: [{ name: 'model.safetensors', bytes: 9, sha256: HASH }],
      ...{ tokenizerSha256: HASH, from: [], rings: [HASH, HASH, HASH], root: null },
      model: shapeOf(readModelConfig({ ...tinyConfig }, { context: 16 })),
      adapter: { rank: 4, alpha: 8, targets, adapterTrain: 'both' },
      ...Object(start),
    },
  });

/** The parameters of a tier, as round 0 has them. */
export function tierOfModel(spec: RunSpec, tier: number) {
  const model = modelOfRun(spec, tier);
  return { layout: modelLayout(model), first: initialParameters(model, spec.training.seed) };
}
