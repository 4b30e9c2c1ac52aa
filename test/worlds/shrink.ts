/** Makes the world of a violation small: fewer faults, rounds, workers and relays, as long as the same invariant breaks. */
import { playWorld } from './play.ts';
import type { World } from './world.ts';

/** Plays a smaller world; returns whether the same invariant breaks. */
type Breaks = (world: World) => Promise<boolean>;

/** Returns the smallest world found in which the first broken invariant of this one breaks, and how many were tried. */
export async function shrink(
  world: World,
  onSmaller: (world: World) => void = () => undefined,
): Promise<World> {
  const { violations } = await playWorld(world);
  const broken = violations[0]?.invariant;
  const breaks: Breaks = async (smaller) => {
    const played = await playWorld(smaller);
    return played.violations.some(({ invariant }) => invariant === broken);
  };
  if (broken === undefined) return world;
  for (let at = world; ; ) {
    const next = await firstBreaking(candidatesOf(at), breaks);
    if (!next) return at;
    at = next;
    onSmaller(at);
  }
}

async function firstBreaking(worlds: Iterable<World>, breaks: Breaks): Promise<World | undefined> {
  for (const world of worlds) if (await breaks(world)) return world;
  return undefined;
}

/** Yields worlds with one thing less, those that lose most first. */
function* candidatesOf(world: World): Generator<World> {
  const { faults, rounds, workers, relays } = world;
  for (let i = 0; i < faults.length; i++) {
    yield { ...world, faults: faults.filter((_, other) => other !== i) };
  }
  if (rounds > 1) yield { ...world, rounds: Math.ceil(rounds / 2) };
  if (rounds > 2) yield { ...world, rounds: rounds - 1 };
  if (workers > 3 && faults.every((each) => isWithin(each.worker, workers - 1))) {
    yield { ...world, workers: workers - 1, contributors: 0 };
  }
  if (relays > 1 && faults.every((each) => isWithin(each.relay, relays - 1))) {
    yield { ...world, relays: relays - 1 };
  }
  if (world.late === 'defer') yield { ...world, late: 'discard' };
  if (world.contributors > 0) yield { ...world, contributors: 0 };
}

const isWithin = (number: unknown, count: number): boolean =>
  typeof number !== 'number' || number < count;
