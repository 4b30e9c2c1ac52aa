/** The setups that are checked: inside the stated bound nothing may go wrong, just outside it something must. */
import type { Setup } from './setup.ts';

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
  // recovery attempts; k > (K + d + f) / 2 with K + d = N, and every list meets every quorum in more than f keys
  setup(3, 3, 'cft', 0, 2, true),
  setup(4, 4, 'bft', 0, 3, true),
  setup(4, 4, 'bft', 1, 3, true),
  setup(5, 5, 'cft', 0, 4, true),
  setup(5, 5, 'bft', 0, 3, true),
  setup(7, 7, 'bft', 0, 5, true),
  setup(7, 7, 'bft', 1, 6, true),
];

/** Small ones are quick and have the most to show: they come up four times as often. */
export const inside: readonly Setup[] = [
  ...all,
  ...[1, 2, 3].flatMap(() => all.filter(({ workers }) => workers < 7)),
];

export const outside: readonly Setup[] = [
  setup(3, 3, 'cft', 1, 0, false),
  setup(4, 4, 'bft', 2, 0, false),
  setup(5, 5, 'cft', 1, 0, false),
  setup(7, 7, 'bft', 3, 0, false),
  // lists of 4 of 7 give committees that share one key: d = 3, k = 3, K = 4
  setup(7, 7, 'bft', 0, 4, false),
  // d = 1, k = 3, K = 4, f = 1
  setup(5, 5, 'cft', 1, 4, false),
];
