/** Makes every delivery take some time; copies of one delivery are delayed each on their own. */
import type { Draws } from './draws.ts';
import type { CreateFault, DelayDistribution } from './fault.ts';

/** The delay that the next uniform draws in [0, 1) stand for, in ms. */
function nextDelay(draws: Draws, delay: DelayDistribution): number {
  const draw = draws();
  if (delay.shape === 'uniform') return delay.minMs + draw * (delay.maxMs - delay.minMs);
  const long = -Math.log(1 - draw);
  if (delay.shape === 'exponential') return Math.min(delay.maxMs, long * delay.meanMs);
  // Box and Muller; a 32-bit draw reaches 6.7 deviations at most
  const normal = Math.sqrt(2 * long) * Math.cos(2 * Math.PI * draws());
  return Math.max(0, delay.meanMs + normal * delay.deviationMs);
}

export const createDelay: CreateFault = ({ delay }, draws) =>
  delay ? (copies) => copies.map((ms) => ms + nextDelay(draws, delay)) : undefined;
