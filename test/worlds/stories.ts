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
  'a relay had required proof of work of votes for a while, and got none for good': {
    ...{ ...world, seed: 10, workers: 3, founders: 3, relays: 1 },
    trainSeconds: [15.337890789378434, 20.69328026796781],
    faults: [
      {
        ...{ fault: 'relay-demands-work', relay: 0 },
        ...{ at: 18.506, seconds: 9.756, strength: 5.552844854304567 },
      },
    ],
  },
  'a relay lost what it had just accepted, was taken for one that stores nothing, and its workers ended':
    {
      ...{ ...world, seed: 78, workers: 3, founders: 3, relays: 1 },
      trainSeconds: [18.120137620251626, 22.52651829640508],
      faults: [{ fault: 'relay-forgets', relay: 0, at: 0.647 }],
    },
  'the only relay required proof of work for a minute, the update was too large for it, and the worker ended':
    {
      ...{ ...world, seed: 8, workers: 3, founders: 3, relays: 1, rounds: 2 },
      document: { training: { model: 'mlp', hidden: [900], packing: 'int8' } },
      faults: [
        {
          ...{ fault: 'relay-demands-work', relay: 0 },
          ...{ at: 9.635, seconds: 60, strength: 6.5 },
        },
      ],
    },
  'requests were lost on connections that stayed open, and no worker repeated them': {
    ...{ ...world, seed: 100171, workers: 4, founders: 4, relays: 1 },
    document: { committee: { size: 3 } },
    trainSeconds: [11.601566481869668, 17.192476014246893],
    faults: [
      {
        ...{ fault: 'one-way', relays: [0], workers: [1, 2], way: 'up' },
        ...{ at: 0.063, seconds: 67.905 },
      },
      {
        ...{ fault: 'relay-is-silent', relay: 0 },
        ...{ at: 16.54, seconds: 48.715, strength: 0.9801864839391783 },
      },
    ],
  },
};

/** Worlds that still break an invariant. */
export const openStories: Readonly<Record<string, World>> = {};
