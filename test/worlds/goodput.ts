/** The goodput of a world, counted as in `npm run simulate`. */
import { goodputOf } from '../bench/simulate/goodput.ts';
import type { Chronicle, Saved } from './chronicle.ts';

/** Returns the contributions that a world counted in an hour of its clock. */
export function worldGoodput({ saved, outcomes, world }: Chronicle): number {
  const byRound = new Map<number, Saved[]>();
  for (const each of saved) byRound.set(each.round, [...(byRound.get(each.round) ?? []), each]);
  const rounds = [...byRound]
    .sort(([a], [b]) => a - b)
    .map(([, saves]) => {
      const ends = saves.map(({ seconds }) => seconds).sort((a, b) => a - b);
      // a plain round counts all workers
      const accepted = outcomes.get(saves[0]!.outcome)?.accepted.length ?? world.workers;
      return { accepted, medianSeconds: ends[ends.length >> 1]! };
    });
  return goodputOf(rounds);
}
