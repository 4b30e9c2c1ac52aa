/** Makes every delivery take some time; copies of one delivery are delayed each on their own. */
import type { CreateFault, DelayDistribution } from './fault.ts';

/** The delay that a uniform draw in [0, 1) stands for. */
function delayAt(draw: number, delay: DelayDistribution): number {
  if (delay.shape === 'uniform') return delay.minMs + draw * (delay.maxMs - delay.minMs);
  return Math.min(delay.maxMs, -Math.log(1 - draw) * delay.meanMs);
}

export const createDelay: CreateFault = ({ delay }, draws) =>
  delay ? (copies) => copies.map((ms) => ms + delayAt(draws(), delay)) : undefined;
