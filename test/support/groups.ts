/** Specs of certified runs of a small mixture of experts with two groups. */
import { initialParameters, modelLayout, modelOfRun } from 'nostrain/model';
import type { RunSpec, Untyped } from 'nostrain/run';
import { certifiedSpec } from './certified-swarm.ts';
import { tieredSections, tieredTraining } from './tiers.ts';

/** Experts 0 and 1 belong to the group `a`, 2 and 3 to `b`. */
export const groupedSpec = (
  founders: readonly number[],
  {
    rounds = 6,
    training = {},
    mixture = {},
    ...document
  }: Untyped & { readonly rounds?: number } = {},
): RunSpec =>
  certifiedSpec({
    ...{ founders, rounds },
    training: { ...tieredTraining, ffn: 16, rounds, ...Object(training) },
    document: {
      mixture: {
        ...{ experts: 4, groups: ['a=0,1', 'b=2,3'], warmupRounds: 1, sharedEvery: 3 },
        ...Object(mixture),
      },
      ...tieredSections(founders.length),
      ...document,
    },
  });

/** The layout and the first parameters of a worker of such a run. */
export function groupedModel(spec: RunSpec) {
  const model = modelOfRun(spec);
  return { layout: modelLayout(model), first: initialParameters(model, spec.training.seed) };
}
