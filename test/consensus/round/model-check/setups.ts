/** The setups to check: within the stated bound no guarantee may fail, just outside of it one must. */
import type { Setup } from './setup.ts';
import type { Weather } from './world.ts';

const setup = (
  workers: number,
  seats: number,
  rule: Setup['rule'],
  equivocators: number,
  floor: number,
  isLive: boolean,
  stakes?: readonly number[],
): Setup => ({
  name: `N=${workers} K=${seats} ${rule} f=${equivocators}${floor > 0 ? ` floor=${floor}` : ''}${stakes ? ' stakes' : ''}`,
  ...{ workers, seats, rule, equivocators, floor, isLive },
  ...(stakes && { stakes }),
});

const all: readonly Setup[] = [
  setup(1, 1, 'bft', 0, 0, true),
  setup(2, 2, 'bft', 0, 0, true),
  setup(3, 3, 'cft', 0, 0, true),
  setup(3, 64, 'bft', 0, 0, true),
  setup(3, 3, 'bft', 2, 0, false),
  setup(4, 4, 'bft', 1, 0, true),
  setup(4, 4, 'bft', 0, 0, true, [5, 1, 1, 1]),
  setup(4, 4, 'bft', 1, 0, false, [5, 1, 1, 1]),
  setup(4, 64, 'bft', 0, 0, true),
  setup(5, 5, 'cft', 0, 0, true),
  setup(5, 5, 'bft', 1, 0, true),
  setup(5, 5, 'bft', 2, 0, false),
  setup(7, 4, 'bft', 1, 0, true),
  setup(7, 7, 'bft', 2, 0, true),
  // recovery epochs; k > (K + d + f) / 2 with K + d = N, and every list meets every quorum in more than f keys
  setup(3, 3, 'cft', 0, 2, true),
  setup(4, 4, 'bft', 0, 3, true),
  setup(4, 4, 'bft', 1, 3, true),
  setup(5, 5, 'cft', 0, 4, true),
  setup(5, 5, 'bft', 0, 3, true),
  setup(7, 7, 'bft', 0, 5, true),
  setup(7, 7, 'bft', 1, 6, true),
  // lists of just more than half: a quorum is more than half of the roster too
  setup(7, 7, 'bft', 0, 4, true),
  setup(5, 5, 'cft', 0, 3, true),
  setup(6, 64, 'bft', 0, 4, true),
  // sampled committees, drawn anew in each epoch; a list meets each quorum of the epochs before
  setup(7, 4, 'bft', 0, 4, true),
  setup(7, 4, 'bft', 1, 6, true),
  setup(5, 3, 'cft', 0, 3, true),
  setup(6, 3, 'bft', 0, 4, true),
  setup(9, 4, 'bft', 0, 5, true),
];

/** Small setups are fast and find the most, so they are played four times as often. */
export const inside: readonly Setup[] = [
  ...all,
  ...[1, 2, 3].flatMap(() => all.filter(({ workers }) => workers < 7)),
];

/** Setups with enough equivocating members for a fork, or with lists of view-change votes that share too few keys. */
export const outside: readonly Setup[] = [
  setup(3, 3, 'cft', 1, 0, false),
  setup(4, 4, 'bft', 2, 0, false),
  setup(5, 5, 'cft', 1, 0, false),
  setup(5, 5, 'bft', 3, 0, false),
  setup(7, 7, 'bft', 3, 0, false),
  setup(10, 10, 'bft', 4, 0, false),
  setup(16, 16, 'bft', 6, 0, false),
];

/** The worst network: two halves that cannot reach each other, and hostile members in both. */
export function splitOf({ workers, equivocators }: Setup): Partial<Weather> {
  const keys = Array.from({ length: workers }, (_, i) => `w${i}`).sort();
  const hostile = keys.slice(0, equivocators);
  const honest = keys.slice(equivocators);
  const sides = new Map(honest.map((key, i) => [key, 2 * i < honest.length - 1 ? 0 : 1]));
  for (const key of hostile) sides.set(key, 2);
  return { ...CALM, hostile, sides };
}

const CALM = {
  ...{
    drop: 0,
    repeat: 0,
    crash: 0,
    slowMs: 5,
    late: 0,
    picky: 0,
    hasRelays: false,
    isSplit: true,
  },
  cutUntil: Number.MAX_SAFE_INTEGER,
  healsAt: 1_000_000,
};

/** Seven honest workers; the middle one reaches both sides but receives nothing. */
export const sharedBallot: Partial<Weather> = {
  ...CALM,
  hostile: [],
  sides: new Map([0, 0, 0, 2, 1, 1, 1].map((side, i) => [`w${i}`, side])),
};

/** With a floor of half or less both sides may continue, as the spec chose. With more than half only one side can. */
export const listsOf = (floor: number): Setup => setup(7, 7, 'bft', 0, floor, false);
