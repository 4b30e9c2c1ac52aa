/** Members that break the rules, no more of them than the committee withstands. */
import type { Attack } from '../../support/adversary.ts';
import type { World } from '../world.ts';
import { type Fault, type FaultCase, mostHostile, numberOf } from './fault.ts';

const hostileIn = ({ faults }: World): number =>
  new Set(faults.flatMap(({ fault, worker }) => (names.has(fault) ? [worker] : []))).size;

/** Creates a fault that turns one worker hostile from a round on. */
const hostile = (name: string, attackFrom: (round: number) => Attack): Fault => ({
  name,
  draw: (draws, world) =>
    hostileIn(world) < mostHostile(world)
      ? {
          worker: draws.whole(0, world.workers - 1),
          fromRound: draws.whole(0, world.rounds - 1),
        }
      : undefined,
  begin: (parameters: FaultCase, stage) =>
    stage.setAttack(numberOf(parameters, 'worker'), attackFrom(numberOf(parameters, 'fromRound'))),
  // what it does in every round is not waited for
  endSeconds: () => 0,
  spoils: (parameters) => [numberOf(parameters, 'worker')],
});

export const equivocates = hostile('equivocates', (equivocateFrom) => ({ equivocateFrom }));

export const withholds = hostile('withholds', (silentFrom) => ({
  silentFrom,
  silentTo: Number.POSITIVE_INFINITY,
}));

const names = new Set([equivocates.name, withholds.name]);
