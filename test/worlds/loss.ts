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

/** Rounds that are over, number of counted contributions of the last of them, and the loss after it. */
interface Counted {
  readonly round: number;
  readonly accepted: number;
  readonly loss: number;
}

/** Returns the losses of founders after the rounds that counted a contribution; small tiers are other models. */
function countedBy(
  { saved, outcomes }: Chronicle,
  founders: readonly number[],
): readonly Counted[] {
  const byRound = new Map<number, Counted>();
  for (const { worker, round, outcome, loss } of saved) {
    const accepted = outcomes.get(outcome)?.accepted.length ?? 0;
    if (founders.includes(worker) && accepted > 0) byRound.set(round, { round, accepted, loss });
  }
  return [...byRound].sort(([a], [b]) => a - b).map(([, counted]) => counted);
}

/**
 * Returns what contradicts the invariant. Compares the last loss with that after as many undisturbed rounds. Where each
 * value has owners, a round with fewer contributions than undisturbed leaves values as they were and is not compared.
 * Where each round moves a fragment, its number says which: rounds are compared up to the first one that counted nothing.
 */
export function lossApart(disturbed: Chronicle, undisturbed: Chronicle): readonly string[] {
  const { world } = disturbed;
  const founders = honestIn(world).filter((worker) => worker < world.founders);
  const counted = countedBy(disturbed, founders);
  const usual = countedBy(undisturbed, founders);
  const training = world.document.training ?? {};
  const isOwned = Object.hasOwn(training, 'owners');
  const isWhole = ({ accepted }: Counted, i: number) =>
    !isOwned || accepted >= (usual[i]?.accepted ?? 0);
  const isSame = ({ round }: Counted, i: number) => round === usual[i]?.round;
  const compared = Object.hasOwn(training, 'fragments') ? counted.filter(isSame) : counted;
  const rounds = compared.filter(isWhole).length;
  const [last, same] = [compared.at(-1)?.loss, usual[rounds - 1]?.loss];
  if (last === undefined || same === undefined) return [];
  if (last - same <= MOST_APART * usual[0]!.loss) return [];
  return [
    `after ${rounds} rounds that count the loss is ${last.toFixed(3)}, undisturbed ${same.toFixed(3)}`,
  ];
}
