/** Flags that only `run-training STATE DATASET` has: those of the Python reference, and three of our own. */
import type { Command } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import { fields } from '../../../run/options.ts';
import {
  choice,
  eachWith,
  type Flag,
  type FlagValues,
  several,
  text,
  toggle,
} from '../../../terminal/flag-table.ts';
import type { StateOutput, stateFormatFlag } from '../../../terminal/state-flags.ts';
import { above0, backendFlag, decimal, integer, runtimeFlag } from '../flags.ts';

/** A number flag with the range of the setting of that name. */
const rateFlag = (
  name: 'outerLearningRate' | 'momentum',
  help: string,
): Flag<number | undefined> => ({
  value: '<x>',
  help,
  read: (typed, flag) => fields[name].read(typed, flag),
});

/** Flags in the order of the help. */
const table = {
  worker: text('<name>', 'name of this worker (default: its public key)'),
  runtime: runtimeFlag,
  backend: backendFlag,
  startRound: integer('<n>', 'first round, from 0; ignored when resuming (default: 0)', 0),
  momentumState: text('<file>', 'initial outer momentum (default: zeros)'),
  momentumOut: text('<file>', 'write the final outer momentum to this file'),
  resumeFrom: text('<file>', 'resume from a checkpoint file of this worker'),
  resumeLatestCheckpoint: toggle('resume from the newest trusted checkpoint on the relays'),
  checkpointWorker: several('<key>', 'trust the checkpoints of this worker; repeatable'),
  checkpointFaults: integer(
    '<n>',
    'otherwise: number of authors that may lie; one more must publish equal hashes (default: 1)',
    0,
  ),
  checkpointSince: integer('<unix>', 'ignore older checkpoints, in Unix seconds', 0),
  checkpointIdleTimeout: decimal(
    '<s>',
    'seconds to wait for checkpoints (default: --round-timeout)',
    above0,
  ),
  checkpointOut: text('<file>', 'write the checkpoint of each round to this file, as JSON'),
  lateGradientTimeout: decimal('<s>', 'seconds to wait for late gradients (default: 0.2)', above0),
  lateGradientStrategy: choice(
    '<name>',
    'apply late gradients before the next round, or only record them (default: deferred)',
    ['deferred', 'discard'],
  ),
  lateGradientLearningRate: rateFlag(
    'outerLearningRate',
    'learning rate of that step (default: --outer-learning-rate)',
  ),
  lateGradientMomentum: rateFlag('momentum', 'momentum of that step (default: --momentum)'),
  advertiseRelay: several(
    '<url>',
    'relay named in heartbeats, repeatable (default: the relays used)',
  ),
  artifactDir: text('<dir>', 'write the results of each round to this folder'),
  artifactRetentionRounds: integer('<n>', 'keep only this many newest rounds (default: all)', 1),
  referenceCompatible: toggle(
    'behave like the Python reference even where that is unsafe, to train with its workers',
  ),
};

/** These flags, under their own heading. */
export const referenceFlags = eachWith(table, {
  group: 'With STATE and DATASET, as in the Python reference:',
});

export type ReferenceFlags = FlagValues<typeof table & { stateFormat: typeof stateFormatFlag }> &
  StateOutput;

/** Throws a ConfigError if one of these flags is used without STATE, where it would have no effect. */
export function assertNoReferenceFlags(command: Command): void {
  const typed = Object.keys(referenceFlags).find(
    (name) => command.getOptionValueSource(name) === 'cli',
  );
  if (typed === undefined) return;
  const { long } = command.options.find((option) => option.attributeName() === typed)!;
  throw new ConfigError('flag/state', `${long} goes with STATE and DATASET`, {
    hint: 'give both, or omit the flag: runs with --model keep their state in --dir',
  });
}
