/** Members that break the rules, no more of them than the committee withstands. */
import { misbehave } from '../../support/adversary.ts';
import { type Attack, flooding, splitting } from '../attacks.ts';
import type { World } from '../world.ts';
import { type Fault, mostHostile, numberOf } from './fault.ts';

const names = new Set<string>();

const hostileIn = ({ faults }: World): ReadonlySet<unknown> =>
  new Set(faults.flatMap(({ fault, worker }) => (names.has(fault) ? [worker] : [])));

/** Creates a fault that turns one worker hostile from a round on. */
function hostile(name: string, attackFrom: (round: number) => Attack): Fault {
  names.add(name);
  return {
    name,
    isCertified: true,
    draw(draws, world) {
      const [worker, fromRound] = [
        draws.whole(0, world.workers - 1),
        draws.whole(0, world.rounds - 1),
      ];
      const others = hostileIn(world);
      const isWithstood = others.has(worker) || others.size < mostHostile(world);
      return isWithstood ? { worker, fromRound } : undefined;
    },
    begin: (parameters, stage) =>
      stage.setAttack(
        numberOf(parameters, 'worker'),
        attackFrom(numberOf(parameters, 'fromRound')),
      ),
    // what it does in every round is not waited for
    endSeconds: () => 0,
    spoils: (parameters) => [numberOf(parameters, 'worker')],
  };
}

/** Commits to a second outcome that does not exist. */
export const equivocates = hostile(
  'equivocates',
  (equivocateFrom) => (relays, signer) => misbehave(relays, signer, { equivocateFrom }),
);

/** Sends no votes and proposals. */
export const withholds = hostile('withholds', (silentFrom) => (relays, signer) => {
  return misbehave(relays, signer, { silentFrom, silentTo: Number.POSITIVE_INFINITY });
});

export const splits = hostile('splits', splitting);

export const floods = hostile('floods', flooding);

/** Trains to parameters that are far from all others. */
export const harms: Fault = {
  ...hostile('harms', () => (relays) => relays),
  begin: (parameters, stage) =>
    stage.setTraining(numberOf(parameters, 'worker'), (params, round) =>
      round < numberOf(parameters, 'fromRound') ? params : params.map((value) => -1e6 * value),
    ),
};
