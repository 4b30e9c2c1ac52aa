/** The spec of the run that a world plays: short times, and the document of the world. */
import type { RunSpec } from 'nostrain/run';
import { certifiedSpec } from '../support/certified-swarm.ts';
import type { Draws } from './draws.ts';
import { type Document, features, overlay } from './features.ts';
import type { World } from './world.ts';

/** Largest difference between the clocks of honest machines. */
export const SKEW_MS = 90_000;
export const GRACE_MAX_MS = 60_000;
const RECOVERY_MS = 120_000;

/** Throws a ConfigError if the format does not allow what the world combines. */
export function specOf({ founders, rounds, document }: World): RunSpec {
  const { training = {}, ...rest } = document;
  return certifiedSpec({
    founders: Array.from({ length: founders }, (_, i) => i),
    rounds,
    training: { model: 'linear', ...(training as object) },
    timing: {
      ...{ graceMinMs: 3000, graceMaxMs: GRACE_MAX_MS, viewMs: 5000 },
      ...{ recoveryMs: RECOVERY_MS, skewMs: SKEW_MS, deadlineC: 4 },
    },
    document: rest,
  });
}

/** Draws what the spec of a world asks for. A feature that the format does not allow beside those before is left out. */
export function drawDocument(world: World, drawsOf: (feature: string) => Draws): Document {
  let { document } = world;
  for (const { name, chance, draw } of features) {
    const draws = drawsOf(name);
    const added = draws.chance(chance) ? draw(draws, world) : undefined;
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
