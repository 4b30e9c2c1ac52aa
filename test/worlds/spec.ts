/** The spec of the run that a world plays: short times, and the document of the world. */
import { startOf } from 'nostrain/certified/parts';
import type { RunSpec } from 'nostrain/run';
import type { Params } from 'nostrain/tensor';
import { certifiedSpec, keyOf } from '../support/certified-swarm.ts';
import { tieredSections, tieredTraining, tierOfModel } from '../support/tiers.ts';
import type { Draws } from './draws.ts';
import { type Document, features, overlay } from './features.ts';
import { withMachines } from './machines.ts';
import type { World } from './world.ts';

/** Largest difference between the clocks of honest machines. */
export const SKEW_MS = 90_000;
export const GRACE_MAX_MS = 60_000;
const RECOVERY_MS = 120_000;

/** A transformer with small tiers. */
const SMALL = { ffn: 64, width: 8 } as const;

/** Throws a ConfigError if the format does not allow what the world combines. */
export function specOf({ founders, rounds, document, workers }: World): RunSpec {
  const { training = {}, machines, ...rest } = document;
  const isSliced = document.tiers !== undefined;
  const spec = certifiedSpec({
    founders: Array.from({ length: founders }, (_, i) => i),
    rounds,
    training: {
      ...(isSliced ? { ...tieredTraining, ...SMALL, rounds } : { model: 'linear' }),
      ...(training as object),
    },
    timing: {
      ...{ graceMinMs: 3000, graceMaxMs: GRACE_MAX_MS, viewMs: 5000 },
      ...{ recoveryMs: RECOVERY_MS, skewMs: SKEW_MS, deadlineC: 4 },
    },
    document: { ...(isSliced && tieredSections(founders)), ...rest },
  });
  return machines === undefined ? spec : withMachines(spec, workers);
}

/** Returns the parameters that a worker starts from; newcomers of a run with tiers train small ones. */
export function startOfWorker(spec: RunSpec, index: number): Params {
  const isFounder = spec.founders.includes(keyOf(index));
  if (spec.tiers === 0 || isFounder) return startOf(spec);
  const { layout, first: values } = tierOfModel(spec, 1 + (index % spec.tiers));
  return { layout, values };
}

/** Draws what the spec of a world asks for. A feature that the format does not allow beside those before is left out. */
export function drawDocument(world: World, drawsOf: (feature: string) => Draws): Document {
  let { document } = world;
  for (const { name, chance, draw } of features) {
    const draws = drawsOf(name);
    const added = draws.chance(chance) ? draw(draws, { ...world, document }) : undefined;
    if (!added) continue;
    const together = overlay(document, added);
    if (isAllowed({ ...world, document: together })) document = together;
  }
  return document;
}

/** Reports whether the format allows what the world combines. */
export function isAllowed(world: World): boolean {
  try {
    specOf(world);
    return true;
  } catch {
    return false;
  }
}
