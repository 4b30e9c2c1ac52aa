/** The learning-rate schedule by global step, so that late joiners use the same rate as everybody else. */
import type { Schedule } from '../../run/spec/model-spec.ts';

/** Linear warm-up to `learningRate`, then a cosine down to `finalShare` of it at the last step. Steps count from 0. */
export function learningRateAt(schedule: Schedule, step: number): number {
  const { learningRate, warmupSteps, totalSteps, finalShare } = schedule;
  if (step < warmupSteps) return (learningRate * (step + 1)) / warmupSteps;
  if (totalSteps === 0) return learningRate;
  const done = Math.min(1, (step - warmupSteps) / Math.max(1, totalSteps - warmupSteps));
  return learningRate * (finalShare + ((1 - finalShare) * (1 + Math.cos(Math.PI * done))) / 2);
}
