/** Plays many schedules and reports which of them violated a guarantee. */
import type { Setup } from './setup.ts';
import { type Weather, World } from './world.ts';

export interface Breach {
  readonly setup: Setup;
  readonly seed: number;
  readonly what: string;
}

/** One schedule, determined by its setup and seed. */
export function playSchedule(
  setup: Setup,
  seed: number,
  script: Partial<Weather> = {},
): { readonly what?: string; readonly steps: number } {
  const { digests, undecided, problems, steps } = new World(setup, seed, script).play();
  if (problems.length > 0) return { what: problems[0]!, steps };
  if (digests.length > 1) return { what: `two outcomes: ${digests.join(' and ')}`, steps };
  if (setup.isLive && undecided.length > 0)
    return { what: `no end for ${undecided.join()}`, steps };
  return { steps };
}

/** Plays schedules over the setups in turn, from one seed on. Stops at the first violation or after the time limit. */
export function checkSchedules(
  setups: readonly Setup[],
  from: number,
  count: number,
  goesOn: (played: number) => boolean = () => true,
): { readonly played: number; readonly steps: number; readonly breach: Breach | undefined } {
  let steps = 0;
  for (let i = 0; i < count; i++) {
    if (!goesOn(i)) return { played: i, steps, breach: undefined };
    const setup = setups[i % setups.length]!;
    const seed = (from + i) >>> 0;
    const { what, steps: taken } = playSchedule(setup, seed);
    steps += taken;
    if (what !== undefined) return { played: i + 1, steps, breach: { setup, seed, what } };
  }
  return { played: count, steps, breach: undefined };
}
