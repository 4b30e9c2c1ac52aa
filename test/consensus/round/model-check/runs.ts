/** Plays runs of several rounds and reports which of them violated a guarantee. */
import { type RunSetup, RunWorld } from './run-world.ts';

const setup = (
  founders: number,
  seats: number,
  rule: RunSetup['rule'],
  more: Partial<RunSetup> = {},
): RunSetup => ({
  ...{ founders, seats, rule, floorPermille: 501, rounds: 4, absent: 0, hostile: 0 },
  ...{ strangers: 0, isLive: true },
  ...more,
});

/** Setups within the stated bounds: no guarantee may be violated in any of them. */
export const runs: readonly RunSetup[] = [
  setup(1, 64, 'bft', { strangers: 1 }),
  setup(3, 64, 'bft', { strangers: 3 }),
  setup(3, 64, 'bft', { absent: 1 }),
  setup(4, 64, 'bft', { hostile: 1 }),
  setup(4, 64, 'bft', { hostile: 1, strangers: 4 }),
  setup(5, 64, 'cft', { absent: 2 }),
  setup(5, 64, 'bft', { absent: 2, strangers: 2 }),
  setup(7, 64, 'bft', { absent: 3 }),
  setup(7, 4, 'bft', { absent: 2 }),
  setup(7, 3, 'cft', { absent: 1 }),
  setup(9, 4, 'bft', { absent: 2, strangers: 3 }),
  setup(9, 5, 'bft', { absent: 3 }),
  setup(7, 3, 'cft', { absent: 3, isLive: false }),
  setup(9, 4, 'bft', { absent: 4, isLive: false }),
];

export interface RunBreach {
  readonly setup: RunSetup;
  readonly seed: number;
  readonly what: string;
}

/** Plays runs over the setups in turn, from one seed on. Stops at the first violation. */
export function checkRuns(
  from: number,
  count: number,
  setups: readonly RunSetup[] = runs,
): { readonly steps: number; readonly recovered: number; readonly breach: RunBreach | undefined } {
  let steps = 0;
  let recovered = 0;
  for (let i = 0; i < count; i++) {
    const one = setups[i % setups.length]!;
    const seed = (from + i) >>> 0;
    const played = new RunWorld(one, seed).play();
    steps += played.steps;
    recovered += played.recovered;
    const what = played.problem;
    if (what !== undefined) return { steps, recovered, breach: { setup: one, seed, what } };
  }
  return { steps, recovered, breach: undefined };
}
