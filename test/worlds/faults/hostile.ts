/** Members that break the rules, no more of them than the committee withstands. */
import { misbehave } from '../../support/adversary.ts';
import { type Attack, flooding, splitting } from '../attacks.ts';
import { type Fault, mostHostile, numberOf } from './fault.ts';

/** Creates a fault that turns one worker hostile from a round on. */
function hostile(name: string, attackFrom: (round: number) => Attack): Fault {
  return {
    name,
    isCertified: true,
    draw: (draws, world) =>
      mostHostile(world) > 0
        ? {
            worker: draws.whole(0, world.workers - 1),
            fromRound: draws.whole(0, world.rounds - 1),
          }
        : undefined,
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
