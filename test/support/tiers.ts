/** A certified run of a small transformer with two tiers of width: its spec, and the part of its model that a worker of a tier has. */
import { modelOfRun } from '../../src/model/from-settings.ts';
import { initialParameters, modelLayout } from '../../src/model/parameters.ts';
import { completeSettings, sharedNames, writeSettings } from '../../src/run/settings.ts';
import { presets } from '../../src/run/spec/presets.ts';
import type { RunSpec } from '../../src/run/spec/run-spec.ts';
import type { Untyped } from '../../src/run/spec/spec-readers.ts';
import { certifiedSpec } from './certified-swarm.ts';

const settings = completeSettings(presets['char-gpt'], {
  ...{ model: 'char-gpt', relay: [], run: 'run', tokens: 'bytes' },
  ...{ width: 16, layers: 1, heads: 2, context: 8, ffn: 512 },
  ...{ owners: 0, fragments: 1, packing: 'int8', residual: 'feedback' },
});
const shared = Object.entries(writeSettings(settings)).filter(([name]) =>
  sharedNames.some((each) => each === name),
);

/** Tiers 0 to 2; only these founders have seats at first. */
export const tieredSpec = (
  founders: readonly number[],
  { rounds = 6, training = {}, ...document }: Untyped & { readonly rounds?: number } = {},
): RunSpec =>
  certifiedSpec({
    ...{ founders, rounds },
    training: { ...Object.fromEntries(shared), rounds, ...Object(training) },
    document: {
      ...{ tiers: 2, joinsPerRound: 4 },
      data: { kind: 'corpus', sha256: 'a'.repeat(64), bytes: 1000, shards: founders.length },
      limits: {
        payloadBytes: 1_000_000,
        weightCap: settings.innerSteps * settings.batchSize,
      },
      ...document,
    },
  });

/** The parameters of a tier, as round 0 has them. */
export function tierOfModel(spec: RunSpec, tier: number) {
  const model = modelOfRun(spec, tier);
  return { layout: modelLayout(model), first: initialParameters(model, spec.training.seed) };
}
