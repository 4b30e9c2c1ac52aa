/**
 * Delivery faults (drop, duplicate, delay, reorder), drawn from a seed, so that they are the same on every machine.
 */
import type { DelayDistribution, FaultSettings } from './settings.ts';

/** Delay of each delivery of one event, in ms. Empty if the event is lost, two entries if it is duplicated. */
export type Delays = readonly number[];

/** Changes the deliveries of one event. */
export type Fault = (delays: Delays) => Delays;

/** Creates the fault that the settings request, or returns undefined. */
export type CreateFault = (settings: FaultSettings, draws: Draws) => Fault | undefined;

/** Returns uniform numbers in [0, 1). */
export type Draws = () => number;

/** Returns the start of a random stream: FNV-1a of its name, mixed with the seed. */
function startOf(seed: number, name: string): number {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (let i = 0; i < name.length; i++) {
    hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193) >>> 0;
  }
  return hash;
}

/** Creates an independent random stream per name (SplitMix32: a Weyl sequence through a 32-bit finalizer). */
export function createDraws(seed: number, name: string): Draws {
  let state = startOf(seed, name);
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad) >>> 0;
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97) >>> 0;
    return ((z ^ (z >>> 15)) >>> 0) / 0x1_0000_0000;
  };
}

export const createDrop: CreateFault = ({ drop = 0 }, draws) =>
  drop > 0 ? (delays) => (draws() < drop ? [] : delays) : undefined;

const createDuplicate: CreateFault = ({ duplicate = 0 }, draws) =>
  duplicate > 0 ? (delays) => (draws() < duplicate ? [...delays, ...delays] : delays) : undefined;

/** Draws a delay, in ms. */
function nextDelay(draws: Draws, delay: DelayDistribution): number {
  const draw = draws();
  if (delay.shape === 'uniform') return delay.minMs + draw * (delay.maxMs - delay.minMs);
  const long = -Math.log(1 - draw);
  if (delay.shape === 'exponential') return Math.min(delay.maxMs, long * delay.meanMs);
  // Box-Muller transform; with 32-bit draws at most 6.7 standard deviations
  const normal = Math.sqrt(2 * long) * Math.cos(2 * Math.PI * draws());
  return Math.max(0, delay.meanMs + normal * delay.deviationMs);
}

export const createDelay: CreateFault = ({ delay }, draws) =>
  delay ? (delays) => delays.map((ms) => ms + nextDelay(draws, delay)) : undefined;

const createReorder: CreateFault = ({ reorder = 0, reorderMs = 200 }, draws) =>
  reorder > 0
    ? (delays) => delays.map((ms) => (draws() < reorder ? ms + draws() * reorderMs : ms))
    : undefined;

const faults = {
  drop: createDrop,
  duplicate: createDuplicate,
  delay: createDelay,
  reorder: createReorder,
} satisfies Record<string, CreateFault>;

const once: Delays = [0];

/**
 * Returns the delays, in ms, of the next delivery and its duplicates. Each fault draws from its own stream, named after
 * the connection number, so the n-th delivery of the m-th connection has the same delays whenever the seed is the same.
 */
export function createFaultPlan(
  settings: FaultSettings,
  seed: number,
  connection: number,
): () => Delays {
  const chosen = Object.entries(faults)
    .map(([name, create]) => create(settings, createDraws(seed, `${name}:${connection}`)))
    .filter((fault): fault is Fault => fault !== undefined);
  return () => chosen.reduce((delays, fault) => fault(delays), once);
}
