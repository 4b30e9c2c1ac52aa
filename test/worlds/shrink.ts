/** Makes a world small: fewer faults, rounds, workers and relays, as long as the same invariant breaks. */
import { highestIn } from './faults/fault.ts';
import { isAllowed } from './spec.ts';
import type { World } from './world.ts';

/** Returns the smallest world found that still breaks; `breaks` plays one and judges it. */
export async function shrink(
  world: World,
  breaks: (world: World) => Promise<boolean>,
  onSmaller: (world: World) => void = () => undefined,
): Promise<World> {
  for (const smaller of candidatesOf(world)) {
    if (!(await breaks(smaller))) continue;
    onSmaller(smaller);
    return shrink(smaller, breaks, onSmaller);
  }
  return world;
}

const FEWEST_WORKERS = 3;

/** Yields worlds with one part less. */
function* candidatesOf(world: World): Generator<World> {
  const { faults, rounds, workers, founders, relays, document } = world;
  if (faults.length > 2) yield { ...world, faults: faults.slice(0, faults.length >> 1) };
  if (faults.length > 2) yield { ...world, faults: faults.slice(faults.length >> 1) };
  for (let i = 0; i < faults.length; i++) {
    yield { ...world, faults: faults.filter((_, other) => other !== i) };
  }
  if (rounds > 3) yield { ...world, rounds: Math.ceil(rounds / 2) };
  if (rounds > 1) yield { ...world, rounds: rounds - 1 };
  const [fewer, left] = [workers - 1, relays - 1];
  if (fewer >= FEWEST_WORKERS && faults.every((each) => highestIn(each, 'worker') <= fewer - 1)) {
    yield { ...world, workers: fewer, founders: Math.min(founders, fewer) };
  }
  if (left >= 1 && faults.every((each) => highestIn(each, 'relay') <= left - 1)) {
    yield { ...world, relays: left };
  }
  for (const name of Object.keys(document)) {
    const { [name]: _, ...others } = document;
    if (isAllowed({ ...world, document: others })) yield { ...world, document: others };
  }
}
