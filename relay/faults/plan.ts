/** All faults of one connection in a row: what happens to its next delivery. */
import { createDelay } from './delay.ts';
import { createDraws } from './draws.ts';
import { createDrop } from './drop.ts';
import { createDuplicate } from './duplicate.ts';
import type { Copies, CreateFault, Fault, FaultSettings } from './fault.ts';
import { createReorder } from './reorder.ts';

const faults = {
  drop: createDrop,
  duplicate: createDuplicate,
  delay: createDelay,
  reorder: createReorder,
} satisfies Record<string, CreateFault>;

const once: Copies = [0];

/**
 * The delays, in ms, of the copies of the next delivery. Each fault draws from its own stream, named after the
 * connection's number, so the n-th delivery of the m-th connection meets the same fate whenever the seed is the same.
 */
export function createFaultPlan(
  settings: FaultSettings,
  seed: number,
  connection: number,
): () => Copies {
  const chosen = Object.entries(faults)
    .map(([name, create]) => create(settings, createDraws(seed, `${name}:${connection}`)))
    .filter((fault): fault is Fault => fault !== undefined);
  return () => chosen.reduce((copies, fault) => fault(copies), once);
}
