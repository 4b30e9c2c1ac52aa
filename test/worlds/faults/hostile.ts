/** Members that break the rules, no more of them than the committee withstands. */
import { misbehave } from '../../support/adversary.ts';
import {
  type Attack,
  censoring,
  copying,
  flooding,
  grinding,
  mischunking,
  mismachining,
  slandering,
  splitting,
  uprooting,
} from '../attacks.ts';
import { type Document, isInChunks } from '../features.ts';
import { wrongMachines } from '../machines.ts';
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

/** Limits a fault to runs with such a document. */
const inRunsWith = (fault: Fault, suits: (document: Document) => boolean): Fault => ({
  ...fault,
  draw: (draws, world) => (suits(world.document) ? fault.draw(draws, world) : undefined),
});

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

export const grinds = hostile('grinds', grinding);

export const copies = hostile('copies', copying);

/** Votes for outcomes as if they followed another one than they do. */
export const uproots = hostile('uproots', uprooting);

export const censors = hostile('censors', censoring);

/** Lies about what others contributed, where votes say it. */
export const slanders: Fault = inRunsWith(
  hostile('slanders', slandering),
  ({ scores, screening }) => scores === true || screening === true,
);

/** Announces false chunks, where payloads are larger than one. */
export const mischunks: Fault = inRunsWith(
  hostile('mischunks', () => mischunking),
  isInChunks,
);

/** Trains to parameters that are far from all others. */
export const harms: Fault = {
  ...hostile('harms', () => (relays) => relays),
  changesLoss: true,
  begin: (parameters, stage) =>
    stage.setTraining(numberOf(parameters, 'worker'), (params, round) =>
      round < numberOf(parameters, 'fromRound') ? params : params.map((value) => -1e6 * value),
    ),
};

/** Sends what its steps do not lead to, within the usual size. */
export const cheats: Fault = inRunsWith(
  {
    ...hostile('cheats', () => (relays) => relays),
    begin: (parameters, stage) =>
      stage.setTraining(numberOf(parameters, 'worker'), (params, round) =>
        round < numberOf(parameters, 'fromRound')
          ? params
          : params.map((value, i) => value + Math.sin(i + round)),
      ),
  },
  ({ jury }) => jury !== undefined,
);

/** As a juror, finds everyone at fault. */
export const misjudges: Fault = inRunsWith(
  {
    ...hostile('misjudges', () => (relays) => relays),
    begin: (parameters, stage) => stage.setMisjudging(numberOf(parameters, 'worker')),
  },
  ({ jury }) => jury !== undefined,
);

/** Joins with evidence of another machine, or for another key than its envelope. */
export const pretends: Fault = {
  ...hostile('pretends', () => (relays) => relays),
  draw: (draws, { workers, founders, document }) =>
    document.machines !== undefined && founders < workers
      ? {
          worker: draws.whole(founders, workers - 1),
          wrong: draws.pick(Object.keys(wrongMachines)),
        }
      : undefined,
  begin: (parameters, stage) =>
    stage.setAttack(
      numberOf(parameters, 'worker'),
      mismachining(wrongMachines[parameters.wrong as keyof typeof wrongMachines]()),
    ),
};
