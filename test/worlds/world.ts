/** A world as plain data: its size and what goes wrong in it. Drawn from a seed, or shrunk from another world. */
import type { ProfileName } from '../../relay/profiles.ts';
import { type Draws, drawsOf } from './draws.ts';
import { type FaultCase, mostHostile } from './faults/fault.ts';
import { faultNamed, faults } from './faults/list.ts';
import type { Document } from './features.ts';
import { drawDocument } from './spec.ts';

export type RunKind = 'certified' | 'plain' | 'python';

/** Whose limits and messages a relay has. */
export type Dialect = ProfileName | 'ours';

export interface World {
  readonly seed: number;
  readonly run: RunKind;
  readonly workers: number;
  /** The first of them; the others join. */
  readonly founders: number;
  readonly relays: number;
  /** Of the relays, in turn. */
  readonly dialects: readonly Dialect[];
  readonly rounds: number;
  /** Seconds of an inner phase: of the fastest worker, and of the slowest. */
  readonly trainSeconds: readonly [number, number];
  /** Of a certified run: what its spec says beyond the usual. */
  readonly document: Document;
  /** Real signatures and training; else a keyed hash, and a trainer that pulls parameters to a target. */
  readonly isReal: boolean;
  readonly faults: readonly FaultCase[];
}

export type Size = 'small' | 'usual' | 'large';

type Range = readonly [least: number, most: number];

const sizes: Record<Size, Record<'workers' | 'relays' | 'rounds' | 'faults', Range>> = {
  small: { workers: [3, 6], relays: [1, 3], rounds: [2, 8], faults: [0, 4] },
  usual: { workers: [6, 16], relays: [2, 6], rounds: [6, 16], faults: [2, 10] },
  large: { workers: [12, 40], relays: [1, 8], rounds: [4, 12], faults: [4, 16] },
};

/** One world in so many averages plainly, without a committee; half as many do so in the profile of the reference. */
const PLAIN_SHARE = 7;
/** Share of the certified runs that newcomers join. */
const JOINED_SHARE = 0.35;
/** Founders that a committee needs to withstand one fault. */
const LEAST_FOUNDERS = 3;
const dialects: readonly Dialect[] = ['ours', 'ours', 'strfry', 'nostr-rs-relay', 'nostream'];
/** One world in so many has real signatures and training. */
const REAL_SHARE = 50;

/** Draws the world of a seed. */
export function drawWorld(seed: number, size: Size = 'small'): World {
  const draws = drawsOf(seed, 'world');
  const { workers, relays, rounds, faults: counts } = sizes[size];
  const fastest = draws.between(8, 20);
  const run = kindOf(seed);
  const [all, relayCount] = [few(draws, ...workers), few(draws, ...relays)];
  const isJoined = run === 'certified' && all > LEAST_FOUNDERS && draws.chance(JOINED_SHARE);
  const quiet: World = {
    ...{ seed, run, workers: all, relays: relayCount },
    founders: isJoined ? draws.whole(LEAST_FOUNDERS, all - 1) : all,
    dialects: Array.from({ length: relayCount }, () => draws.pick(dialects)),
    rounds: few(draws, ...rounds),
    trainSeconds: [fastest, fastest * draws.between(1, 1.6)],
    document: {},
    isReal: seed % REAL_SHARE === 0,
    faults: [],
  };
  const document =
    run === 'certified' ? drawDocument(quiet, (name) => drawsOf(seed, 'feature', name)) : {};
  const drawn = { ...quiet, document };
  return { ...drawn, faults: drawFaults(drawn, draws.whole(...counts)) };
}

function kindOf(seed: number): RunKind {
  if (seed % PLAIN_SHARE === 0) return 'plain';
  return seed % (2 * PLAIN_SHARE) === 3 ? 'python' : 'certified';
}

/** Returns a whole number of the range; small ones are likelier, since small worlds are played faster. */
function few(draws: Draws, least: number, most: number): number {
  return Math.min(draws.whole(least, most), draws.whole(least, most));
}

/** Faults drawn until one suits the world. */
const TRIES = 3;

/** Draws faults one after the other. A fault that would exceed what the run withstands is drawn again. */
function drawFaults(world: World, count: number): readonly FaultCase[] {
  let drawn = world;
  const possible = faults.filter(
    ({ isCertified = false }) => world.run === 'certified' || !isCertified,
  );
  for (let i = 0; i < count; i++) {
    const draws = drawsOf(world.seed, 'fault', i);
    for (let tries = 0; tries < TRIES; tries++) {
      const fault = draws.pick(possible);
      const parameters = fault.draw(draws, drawn);
      const next = { ...drawn, faults: [...drawn.faults, { fault: fault.name, ...parameters }] };
      if (!parameters || spoiledIn(next).size > Math.max(1, mostHostile(world))) continue;
      drawn = next;
      break;
    }
  }
  return drawn.faults;
}

/** Seconds from the beginning to the end of the last fault. */
export const lastFaultSeconds = ({ faults: cases }: World): number =>
  Math.max(0, ...cases.map((each) => faultNamed(each.fault).endSeconds(each)));

/** Workers that are hostile, or whose machine does what the protocol does not allow for. */
export const spoiledIn = ({ faults: cases }: World): ReadonlySet<number> =>
  new Set(cases.flatMap((each) => faultNamed(each.fault).spoils?.(each, cases) ?? []));

/** Workers whose conduct is checked. */
export function honestIn(world: World): readonly number[] {
  const spoiled = spoiledIn(world);
  return Array.from({ length: world.workers }, (_, i) => i).filter((i) => !spoiled.has(i));
}
