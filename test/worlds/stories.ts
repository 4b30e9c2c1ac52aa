/** Worlds that broke an invariant once, shrunk, each with what was wrong. They are played by the tests. */
import type { World } from './world.ts';

const world: Omit<World, 'seed' | 'workers' | 'founders' | 'relays' | 'faults'> = {
  run: 'certified',
  dialects: ['ours'],
  rounds: 1,
  document: {},
  isReal: false,
  trainSeconds: [9.524313183967024, 14.463148051317251],
};

export const stories: Readonly<Record<string, World>> = {
  'a relay that cut off answers was taken for one that loses events, and a worker ended': {
    ...{ ...world, seed: 76, workers: 3, founders: 3, relays: 1 },
    faults: [
      {
        ...{ fault: 'relay-truncates', relay: 0 },
        ...{ at: 0.201, seconds: 53.042, strength: 0.38393197659752326 },
      },
    ],
  },
};
