/** Flags that only `run-training STATE DATASET` has: those of the Python reference, and three of ours for what it leaves open. */
import { type Command, Option } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import type { StorageOptions } from '../../../formats/stored-state.ts';
import type { RegressionTask } from '../../../model/data/regression.ts';
import { fields } from '../../../run/settings.ts';
import { repeatable } from '../../../terminal/flags.ts';
import type { RegressionBackend } from '../../node/train-on-backend.ts';
import { above0, backendOption, decimal, integer } from '../number-flags.ts';
import type { StateOutput } from '../state-formats.ts';

export interface ReferenceFlags extends StateOutput {
  readonly stateFormat: NonNullable<StorageOptions['format']>;
  readonly worker?: string;
  readonly runtime?: RegressionTask;
  readonly backend: RegressionBackend;
  readonly startRound?: number;
  readonly momentumState?: string;
  readonly momentumOut?: string;
  readonly resumeFrom?: string;
  readonly resumeLatestCheckpoint?: true;
  readonly checkpointWorker?: readonly string[];
  readonly checkpointFaults?: number;
  readonly checkpointSince?: number;
  readonly checkpointIdleTimeout?: number;
  readonly checkpointOut?: string;
  readonly lateGradientTimeout?: number;
  readonly lateGradientStrategy?: 'deferred' | 'discard';
  readonly lateGradientLearningRate?: number;
  readonly lateGradientMomentum?: number;
  readonly advertiseRelay?: readonly string[];
  readonly artifactDir?: string;
  readonly artifactRetentionRounds?: number;
  readonly referenceCompatible?: true;
}

/** In the order of the help. */
const options = (): readonly Option[] => [
  new Option('--worker <name>', 'name of this worker (default: its public key)'),
  new Option('--runtime <name>', 'which model it must be (default: what STATE is)').choices([
    'linear-regression',
    'mlp-regression',
  ]),
  backendOption(),
  integer('--start-round <n>', 'first round, from 0; not read when resuming (default: 0)', 0),
  new Option('--momentum-state <file>', 'outer momentum to start from (default: zeros)'),
  new Option('--momentum-out <file>', 'write the final outer momentum there'),
  new Option('--resume-from <file>', 'go on from a checkpoint file of this worker'),
  new Option(
    '--resume-latest-checkpoint',
    'go on from the newest checkpoint on the relays that can be trusted',
  ),
  repeatable('--checkpoint-worker <key>', 'trust the checkpoints of this worker; repeatable'),
  integer(
    '--checkpoint-faults <n>',
    'else: how many authors may lie; one more must publish equal hashes (default: 1)',
    0,
  ),
  integer('--checkpoint-since <unix>', 'leave out older checkpoints, unix seconds', 0),
  decimal(
    '--checkpoint-idle-timeout <s>',
    'seconds to look for them (default: --round-timeout)',
    above0,
  ),
  new Option('--checkpoint-out <file>', 'write the checkpoint of each round there, as JSON'),
  decimal(
    '--late-gradient-timeout <s>',
    'seconds to look for late gradients (default: 0.2)',
    above0,
  ),
  new Option(
    '--late-gradient-strategy <name>',
    'fold late gradients in before the next round, or only note them (default: deferred)',
  ).choices(['deferred', 'discard']),
  new Option(
    '--late-gradient-learning-rate <x>',
    'rate of that step (default: --outer-learning-rate)',
  ).argParser((text) => fields.outerLearningRate.read(text, '--late-gradient-learning-rate')),
  new Option(
    '--late-gradient-momentum <x>',
    'momentum of that step (default: --momentum)',
  ).argParser((text) => fields.momentum.read(text, '--late-gradient-momentum')),
  repeatable(
    '--advertise-relay <url>',
    'relay named in heartbeats, repeatable (default: those used)',
  ),
  new Option('--artifact-dir <dir>', 'write everything a round makes there'),
  integer('--artifact-retention-rounds <n>', 'keep the newest rounds only (default: all)', 1),
  new Option(
    '--reference-compatible',
    'do as the Python reference does, also where that is unsafe, to train with its workers',
  ),
];

/** Adds them, under a heading of their own. */
export function addReferenceFlags(command: Command): Command {
  command.optionsGroup('With STATE and DATASET, as in the Python reference:');
  for (const option of options()) command.addOption(option);
  return command;
}

/** Throws when one of them is typed without STATE, where it would do nothing. */
export function assertNoReferenceFlags(command: Command): void {
  const typed = options().find(
    (option) => command.getOptionValueSource(option.attributeName()) === 'cli',
  );
  if (!typed) return;
  throw new ConfigError('flag/state', `${typed.long} goes with STATE and DATASET`, {
    hint: 'give both, or leave the flag out: runs by --model keep their state in --dir',
  });
}
