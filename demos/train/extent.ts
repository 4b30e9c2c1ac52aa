/** How many rounds and steps of a demo fit into a time on this machine. */
import { availableParallelism } from 'node:os';
import { presets } from 'nostrain';
import { trainBriefly } from '../../src/node/engine/device.ts';
import { completeSettings } from '../../src/run/settings.ts';

export interface Extent {
  readonly workers: number;
  readonly rounds: number;
  readonly innerSteps: number;
}

export interface ExtentLimits {
  /** Seconds from the start of the demo to its end. */
  readonly seconds: number;
  /** Rounds below which the loss suffers more than from fewer steps. */
  readonly fewestRounds: number;
}

/** Seconds to start the workers, and to save and evaluate at the end. */
const AROUND_SECONDS = 15;
/** Evaluation, sample and exchange of a round take as long as this many steps (docs/results/demo.md). */
const ROUND_STEPS = 12;
const FEWEST_STEPS = 5;
/** Steps that are timed, after one that warms the engine up. */
const TIMED_STEPS = 2;

export interface StepTime {
  /** While as many workers train as have a core of their own. */
  readonly alone: number;
  /** While all workers train. */
  readonly together: number;
}

/** Returns an extent that fits into the time limit: fewer rounds if that suffices, else fewer steps too. */
export function fitExtent(
  wanted: Extent,
  { alone, together }: StepTime,
  limits: ExtentLimits,
): Extent {
  const { innerSteps, rounds } = wanted;
  const free = limits.seconds - AROUND_SECONDS;
  const roundSeconds = innerSteps * together + ROUND_STEPS * alone;
  const fitting = Math.floor(free / roundSeconds);
  if (fitting >= rounds) return wanted;
  if (fitting >= limits.fewestRounds) return { ...wanted, rounds: fitting };
  const fewest = Math.min(rounds, limits.fewestRounds);
  const steps = Math.floor((free / fewest - ROUND_STEPS * alone) / together);
  return {
    ...wanted,
    rounds: fewest,
    innerSteps: Math.min(innerSteps, Math.max(FEWEST_STEPS, steps)),
  };
}

/** Returns the seconds that a demo of this extent takes. */
export const secondsOf = ({ rounds, innerSteps }: Extent, { alone, together }: StepTime): number =>
  AROUND_SECONDS + rounds * (innerSteps * together + ROUND_STEPS * alone);

/** Formats the plan, and what was left out of the wanted extent. */
export function wordPlan(extent: Extent, wanted: Extent, seconds: number): string {
  const { rounds, innerSteps } = extent;
  const time = seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
  const plan = `${rounds} rounds of ${innerSteps} steps, about ${time}`;
  if (rounds === wanted.rounds && innerSteps === wanted.innerSteps) return `plan: ${plan}`;
  const all = `--rounds ${wanted.rounds} --inner-steps ${wanted.innerSteps}`;
  return `this machine is slow, so the plan is ${plan}; for all of it: ${all}`;
}

/** Trains a few steps in as many trainers at once as the machine can run, and returns the time of a step. */
export async function timeSteps(workers: number): Promise<StepTime> {
  const cores = availableParallelism();
  const trainers = Math.min(workers, cores);
  const threads = Math.max(1, Math.floor(cores / workers));
  const settings = completeSettings(presets['char-gpt'], {
    model: 'char-gpt',
    run: 'probe',
    relay: [],
  });
  const brief = { rows: settings.batchSize, threads, warmUp: 1, steps: TIMED_STEPS };
  const timed = await Promise.all(
    Array.from({ length: trainers }, () => trainBriefly('cpu', settings, brief)),
  );
  const alone = Math.max(...timed.map(({ seconds }) => seconds)) / TIMED_STEPS;
  return { alone, together: (alone * workers) / trainers };
}
