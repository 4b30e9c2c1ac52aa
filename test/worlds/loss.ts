/** Compares what a world learned with what it learns undisturbed: the same world without its faults. */
import type { Chronicle } from './chronicle.ts';
import { faultNamed } from './faults/list.ts';
import { honestIn, type World } from './world.ts';

/** One world in so many is also played without its faults, which takes as long again. */
const COMPARED_SHARE = 10;
/** Largest distance from the undisturbed loss, as a share of the loss after the first round. */
const MOST_APART = 0.25;

/** Name of the invariant. */
export const LOSS_STAYS = 'the final loss stays near the undisturbed one';

/**
 * Reports whether a world is played without its faults too. With real training nothing knows the loss of a model, and
 * harmful updates are averaged as they are.
 */
export const isCompared = ({ seed, run, faults, isReal }: World): boolean =>
  seed % COMPARED_SHARE === 1 &&
  run === 'certified' &&
  faults.length > 0 &&
  !faults.some(({ fault }) => faultNamed(fault).changesLoss) &&
  !isReal;

/** Returns the losses of founders after the rounds that counted a contribution; small tiers are other models. */
function lossesOf({ saved, outcomes }: Chronicle, founders: readonly number[]): readonly number[] {
  const byRound = new Map<number, number>();
  for (const { worker, round, outcome, loss } of saved) {
    if (!founders.includes(worker) || !outcomes.get(outcome)?.accepted.length) continue;
    byRound.set(round, loss);
  }
  return [...byRound].sort(([a], [b]) => a - b).map(([, loss]) => loss);
}

/** Returns what contradicts the invariant. Compares the last loss with that after as many undisturbed rounds. */
export function lossApart(disturbed: Chronicle, undisturbed: Chronicle): readonly string[] {
  const { world } = disturbed;
  const founders = honestIn(world).filter((worker) => worker < world.founders);
  const [losses, usual] = [disturbed, undisturbed].map((each) => lossesOf(each, founders));
  const [last, same] = [losses!.at(-1), usual![losses!.length - 1]];
  if (last === undefined || same === undefined) return [];
  if (last - same <= MOST_APART * usual![0]!) return [];
  const rounds = `${losses!.length} rounds that count`;
  return [`after ${rounds} the loss is ${last.toFixed(3)}, undisturbed ${same.toFixed(3)}`];
}
