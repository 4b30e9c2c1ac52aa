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
  'a proposal of a decided round waited for a rate limit before the next update, and a round counted nothing':
    {
      ...{ ...world, seed: 191, workers: 3, founders: 3, relays: 1, rounds: 3 },
      dialects: ['nostream'],
      document: { foundersDecide: true },
      trainSeconds: [8.159283405635506, 11.936632822229775],
      faults: [],
    },
  'a worker was killed before it saved a decision, relays lost its own update, and it waited for it for ever':
    {
      ...{ ...world, seed: 606, workers: 3, founders: 3, relays: 1, rounds: 3 },
      dialects: ['strfry'],
      document: { foundersDecide: true },
      trainSeconds: [9.724659850355238, 15.250241098206601],
      faults: [
        { fault: 'relay-forgets', relay: 0, at: 27.593 },
        {
          ...{ fault: 'killed', worker: 0, moment: 'after-write', writes: 3 },
          ...{ at: 6.726, awaySeconds: 39.696 },
        },
      ],
    },
  'a late vote of its own earlier session was taken for one of another process, and a worker ended':
    {
      ...{ ...world, seed: 872, workers: 5, founders: 5, relays: 1, rounds: 4 },
      document: { committee: { size: 5 }, late: 'defer' },
      trainSeconds: [9.87463442189619, 12.970417966332045],
      faults: [
        { fault: 'copies', worker: 0, fromRound: 3 },
        {
          ...{ fault: 'relay-forges', relay: 0 },
          ...{ at: 27.669, seconds: 51.95, strength: 0.5436168528045527 },
        },
        {
          ...{ fault: 'relay-closes-reqs', relay: 0 },
          ...{ at: 17.633, seconds: 37.864, strength: 0.6383095697499812 },
        },
        { fault: 'disk-lost', worker: 4, at: 32.054, awaySeconds: 26.212, writes: 0 },
      ],
    },
  'a relay that hung up often got an update again and again, each upload aborted the one before, and workers ended':
    {
      ...{ ...world, seed: 20473, workers: 3, founders: 3, relays: 1, rounds: 2 },
      dialects: ['nostream'],
      document: { training: { model: 'mlp', hidden: [12_000], packing: 'int8' } },
      trainSeconds: [16.44113920023665, 25.409602111815357],
      faults: [
        {
          ...{ fault: 'relay-hangs-up', relay: 0 },
          ...{ at: 34.666, seconds: 22.718, strength: 0.16633379572536794 },
        },
        {
          ...{ fault: 'relay-truncates', relay: 0 },
          ...{ at: 44.793, seconds: 56.205, strength: 0.16211885064258238 },
        },
      ],
    },
  'two members lost their disks and the only relay all earlier rounds, which were published again only after a round that could not end':
    {
      ...{ ...world, seed: 700_001, workers: 4, founders: 4, relays: 1, rounds: 3 },
      trainSeconds: [9.5, 13],
      faults: [
        { fault: 'relay-forgets', relay: 0, at: 40 },
        { fault: 'disk-lost', worker: 0, at: 38, awaySeconds: 20, writes: -1 },
        { fault: 'disk-lost', worker: 1, at: 39, awaySeconds: 20, writes: -1 },
      ],
    },
  'a relay dropped CLOSEs that came too fast, counted these subscriptions for good, and answered no other one':
    {
      ...{ ...world, seed: 3809, workers: 3, founders: 3, relays: 1, rounds: 4 },
      dialects: ['nostream'],
      document: { late: 'defer', seatWishes: true },
      trainSeconds: [8.921563991811126, 10.219842596295415],
      faults: [
        {
          ...{ fault: 'relay-hangs-up', relay: 0 },
          ...{ at: 33.755, seconds: 40.195, strength: 0.156551638697274 },
        },
      ],
    },
  'an update was signed again for proof of work, and its first event was still resent to relays that came back':
    {
      ...{ ...world, seed: 3212, workers: 4, founders: 3, relays: 2, rounds: 4 },
      dialects: ['nostream', 'strfry'],
      document: {
        tier: 'verified',
        admission: {
          kind: 'list',
          keys: ['462779ad4aad39514614751a71085f2f10e1c7a593e4e030efb5b8721ce55b0b'],
        },
        aggregation: { rule: 'krum', before: 'nothing', hostile: 1 },
        training: { packing: 'int8' },
        checkpoint: { every: 4, keep: 2 },
      },
      trainSeconds: [19.2768055065535, 30.51358342664985],
      faults: [
        {
          ...{ fault: 'partition', workers: [1], relays: [0, 1] },
          ...{ at: 108.5, seconds: 55.022 },
        },
        {
          ...{ fault: 'relay-demands-work', relay: 0 },
          ...{ at: 51.956, seconds: 31.632, strength: 3.5266752664465457 },
        },
        { fault: 'leaves', worker: 0, at: 5.909 },
      ],
    },
  'the only relay deleted the last updates, and members behind a partition waited for them after their authors had finished':
    {
      ...{ ...world, seed: 7411, workers: 5, founders: 4, relays: 1, rounds: 2 },
      dialects: ['nostream'],
      trainSeconds: [8.889715148601681, 10.964846208991426],
      faults: [
        {
          ...{ fault: 'relay-deletes', relay: 0 },
          ...{ at: 4.726, seconds: 42.715, strength: 36.50216729321983 },
        },
        { fault: 'partition', at: 14.489, seconds: 47.124, workers: [3, 4], relays: [] },
      ],
    },
  'a full disk kept a member away while the only relay deleted updates of a decided round': {
    ...{ ...world, seed: 9924, workers: 5, founders: 5, relays: 1, rounds: 3 },
    document: { committee: { size: 5 }, contributors: 5 },
    trainSeconds: [13.439417766872793, 18.113584013617675],
    faults: [
      { fault: 'disk-full', worker: 4, at: 38.619, seconds: 44.307 },
      {
        ...{ fault: 'relay-deletes', relay: 0 },
        ...{ at: 23.173, seconds: 35.962, strength: 19.874216647003777 },
      },
    ],
  },
  'a killed member came back to a decided round, and the only relay had deleted its updates': {
    ...{ ...world, seed: 7820, workers: 3, founders: 3, relays: 1, rounds: 2 },
    dialects: ['nostream'],
    document: {
      ...{ committee: { size: 4 }, checkpoint: { every: 3, keep: 2 } },
      beacon: { kind: 'block', lagSeconds: 181, chain: 'eip155:1' },
    },
    trainSeconds: [12.407648784574121, 16.51097435248009],
    faults: [
      {
        ...{ fault: 'relay-deletes', relay: 0 },
        ...{ at: 1.991, seconds: 28.392, strength: 52.55362955795135 },
      },
      {
        ...{ fault: 'killed', worker: 0, at: 24.311 },
        ...{ moment: 'torn-write', writes: 1, awaySeconds: 41.136 },
      },
      { fault: 'disk-lost', worker: 1, at: 12.214, awaySeconds: 18.864, writes: 1 },
    ],
  },
  'a member lost its disk and the only relay its update, without which the round could not end': {
    ...{ ...world, seed: 9816, workers: 3, founders: 3, relays: 2, rounds: 3 },
    dialects: ['nostream', 'nostream'],
    document: { sessions: true },
    trainSeconds: [14.965828970540315, 22.99578761507088],
    faults: [
      { fault: 'relay-dies', relay: 0, at: 1.308, seconds: 43.733 },
      { fault: 'disk-lost', worker: 0, at: 27.551, awaySeconds: 56.612, writes: 1 },
      {
        ...{ fault: 'relay-deletes', relay: 1 },
        ...{ at: 14.424, seconds: 29.19, strength: 52.91735985141713 },
      },
      {
        ...{ fault: 'relay-swallows', relay: 1 },
        ...{ at: 0.363, seconds: 54.045, strength: 0.4362417709315196 },
      },
    ],
  },
  'a worker decided a round by other votes than the next outcome lists, and its records did not prove their committee':
    {
      ...{ ...world, seed: 2890, workers: 4, founders: 3, relays: 1, rounds: 2 },
      trainSeconds: [18.123498506378382, 20.269190908822246],
      faults: [
        {
          ...{ fault: 'relay-throttles', relay: 0 },
          ...{ at: 2.103, seconds: 48.833, strength: 4.040691151982173 },
        },
        {
          ...{ fault: 'one-way', relays: [0], workers: [2, 3], way: 'down' },
          ...{ at: 14.864, seconds: 90.412 },
        },
      ],
    },
};

/** Worlds that still break an invariant. */
export const openStories: Readonly<Record<string, World>> = {};
