/** A world as plain data: its size and what goes wrong in it. Drawn from a seed, or shrunk from another world. */
import { type Draws, drawsOf } from './draws.ts';
import { type FaultCase, mostHostile } from './faults/fault.ts';
import { faultNamed, faults } from './faults/list.ts';

export type RunKind = 'certified' | 'plain';

export interface World {
  readonly seed: number;
  readonly run: RunKind;
  readonly workers: number;
  readonly relays: number;
  readonly rounds: number;
  /** Seconds of an inner phase: of the fastest worker, and of the slowest. */
  readonly trainSeconds: readonly [number, number];
  readonly late: 'discard' | 'defer';
  /** Workers drawn to contribute to a round; 0: all. */
  readonly contributors: number;
  /** Real signatures; else a keyed hash. */
  readonly isReal: boolean;
  readonly faults: readonly FaultCase[];
}

export type Size = 'small' | 'usual';

type Range = readonly [least: number, most: number];

const sizes: Record<Size, Record<'workers' | 'relays' | 'rounds' | 'faults', Range>> = {
  small: { workers: [3, 6], relays: [1, 3], rounds: [2, 8], faults: [0, 4] },
  usual: { workers: [6, 16], relays: [2, 6], rounds: [6, 16], faults: [2, 10] },
};

/** One world in so many averages plainly, without a committee. */
const PLAIN_SHARE = 7;
/** One world in so many has real signatures. */
const REAL_SHARE = 50;

/** Draws the world of a seed. */
export function drawWorld(seed: number, size: Size = 'small'): World {
  const draws = drawsOf(seed, 'world');
  const { workers, relays, rounds, faults: counts } = sizes[size];
  const fastest = draws.between(8, 20);
  const quiet: World = {
    seed,
    run: seed % PLAIN_SHARE === 0 ? 'plain' : 'certified',
    workers: few(draws, ...workers),
    relays: few(draws, ...relays),
    rounds: few(draws, ...rounds),
    trainSeconds: [fastest, fastest * draws.between(1, 1.6)],
    late: draws.pick(['discard', 'defer']),
    contributors: 0,
    isReal: seed % REAL_SHARE === 0,
    faults: [],
  };
  const drawn: World =
    quiet.late === 'discard' && draws.chance(0.3)
      ? { ...quiet, contributors: Math.max(2, quiet.workers - 1) }
      : quiet;
  return { ...drawn, faults: drawFaults(drawn, draws.whole(...counts)) };
}

/** Returns a whole number of the range; small ones are likelier, since small worlds are played faster. */
function few(draws: Draws, least: number, most: number): number {
  return Math.min(draws.whole(least, most), draws.whole(least, most));
}

/** Draws faults one after the other. A fault that would exceed what the run withstands is left out. */
function drawFaults(world: World, count: number): readonly FaultCase[] {
  let drawn = world;
  const possible = faults.filter(
    ({ isCertified = false }) => world.run === 'certified' || !isCertified,
  );
  for (let i = 0; i < count; i++) {
    const draws = drawsOf(world.seed, 'fault', i);
    const fault = draws.pick(possible);
    const parameters = fault.draw(draws, drawn);
    if (!parameters) continue;
    const next = { ...drawn, faults: [...drawn.faults, { fault: fault.name, ...parameters }] };
    if (spoiledIn(next).size <= Math.max(1, mostHostile(world))) drawn = next;
  }
  return drawn.faults;
}

/** Seconds from the beginning to the end of the last fault. */
export const lastFaultSeconds = ({ faults: cases }: World): number =>
  Math.max(0, ...cases.map((each) => faultNamed(each.fault).endSeconds(each)));

/** Workers that are hostile, or whose machine does what the protocol does not allow for. */
export const spoiledIn = ({ faults: cases }: World): ReadonlySet<number> =>
  new Set(cases.flatMap((each) => faultNamed(each.fault).spoils?.(each) ?? []));
