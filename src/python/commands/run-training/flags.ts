/** Flags that only `run-training STATE DATASET` has: the Python reference's, and three of ours. */
import type { Command } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import { fields } from '../../../run/options.ts';
import {
  addFlags,
  choice,
  type Flag,
  type FlagValues,
  several,
  text,
  toggle,
} from '../../../terminal/flag-table.ts';
import type { StateOutput, stateFormatFlag } from '../../../terminal/state-flags.ts';
import { above0, backendFlag, decimal, integer, runtimeFlag } from '../flags.ts';

/** A number that the setting of that name would take. */
const rateFlag = (
  name: 'outerLearningRate' | 'momentum',
  help: string,
): Flag<number | undefined> => ({
  value: '<x>',
  help,
  read: (typed, flag) => fields[name].read(typed, flag),
});

/** In the order of the help. */
const referenceFlags = {
  worker: text('<name>', 'name of this worker (default: its public key)'),
  runtime: runtimeFlag,
  backend: backendFlag,
  startRound: integer('<n>', 'first round, from 0; not read when resuming (default: 0)', 0),
  momentumState: text('<file>', 'outer momentum to start from (default: zeros)'),
  momentumOut: text('<file>', 'write the final outer momentum there'),
  resumeFrom: text('<file>', 'go on from a checkpoint file of this worker'),
  resumeLatestCheckpoint: toggle(
    'go on from the newest checkpoint on the relays that can be trusted',
  ),
  checkpointWorker: several('<key>', 'trust the checkpoints of this worker; repeatable'),
  checkpointFaults: integer(
    '<n>',
    'else: how many authors may lie; one more must publish equal hashes (default: 1)',
    0,
  ),
  checkpointSince: integer('<unix>', 'leave out older checkpoints, unix seconds', 0),
  checkpointIdleTimeout: decimal(
    '<s>',
    'seconds to look for them (default: --round-timeout)',
    above0,
  ),
  checkpointOut: text('<file>', 'write the checkpoint of each round there, as JSON'),
  lateGradientTimeout: decimal('<s>', 'seconds to look for late gradients (default: 0.2)', above0),
  lateGradientStrategy: choice(
    '<name>',
    'fold late gradients in before the next round, or only note them (default: deferred)',
    ['deferred', 'discard'],
  ),
  lateGradientLearningRate: rateFlag(
    'outerLearningRate',
    'rate of that step (default: --outer-learning-rate)',
  ),
  lateGradientMomentum: rateFlag('momentum', 'momentum of that step (default: --momentum)'),
  advertiseRelay: several('<url>', 'relay named in heartbeats, repeatable (default: those used)'),
  artifactDir: text('<dir>', 'write everything a round makes there'),
  artifactRetentionRounds: integer('<n>', 'keep the newest rounds only (default: all)', 1),
  referenceCompatible: toggle(
    'do as the Python reference does, also where that is unsafe, to train with its workers',
  ),
};

export type ReferenceFlags = FlagValues<
  typeof referenceFlags & { stateFormat: typeof stateFormatFlag }
> &
  StateOutput;

/** Adds them, under a heading of their own. */
export function addReferenceFlags(command: Command): Command {
  command.optionsGroup('With STATE and DATASET, as in the Python reference:');
  return addFlags(command, referenceFlags);
}

/** Throws when one of them is typed without STATE, where it would do nothing. */
export function assertNoReferenceFlags(command: Command): void {
  const typed = Object.keys(referenceFlags).find(
    (name) => command.getOptionValueSource(name) === 'cli',
  );
  if (typed === undefined) return;
  const { long } = command.options.find((option) => option.attributeName() === typed)!;
  throw new ConfigError('flag/state', `${long} goes with STATE and DATASET`, {
    hint: 'give both, or leave the flag out: runs by --model keep their state in --dir',
  });
}
