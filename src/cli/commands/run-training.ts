/** `nostrain run-training`: one worker of a run; the same command goes on where it stopped. */
import { join } from 'node:path';
import { Argument, Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { readModel, writeModel } from '../../model/regression/layout.ts';
import { dataHome } from '../../node/data-home.ts';
import { readStateFile } from '../../node/state-io.ts';
import { presets, referenceDefaults } from '../../run/presets.ts';
import type { PartialSettings, Settings } from '../../run/settings.ts';
import type { Params } from '../../tensor/params.ts';
import {
  addSettingFlags,
  assertAgreeable,
  combineSettings,
  settingsFromFile,
  settingsFromFlags,
} from '../flags.ts';
import { onInterrupt } from '../interrupt.ts';
import { trainIn } from '../run/join.ts';
import { addMemberFlags, type MemberFlags } from '../run/member-flags.ts';
import { assertWritable } from '../state-formats.ts';
import { addWorkerFlags, playToEnd, type WorkerFlags } from '../worker-command.ts';

export const runTraining = (): Command =>
  addMemberFlags(
    addWorkerFlags(
      addSettingFlags(
        new Command('run-training')
          .description('train as one worker of a run; repeat the command to go on after a stop')
          .addArgument(new Argument('[state]', 'regression: JSON state to start from'))
          .addArgument(new Argument('[dataset]', 'regression: JSON dataset to train on')),
      ).option('--spec <run>', 'file or naddr1… of a run with a spec; the same as `run join`'),
      '--dir; with --spec in your data folder',
    ),
  ).action(train);

interface Flags extends WorkerFlags, MemberFlags {
  readonly spec?: string;
}

async function train(
  state: string | undefined,
  dataset: string | undefined,
  flags: Flags,
  command: Command,
): Promise<void> {
  if (flags.spec !== undefined) return trainBySpec(flags.spec, state, flags, command);
  const start = state === undefined ? undefined : writeModel(readModel(await readStateFile(state)));
  if (start && dataset === undefined) {
    throw new ConfigError('flag/dataset', 'STATE needs a DATASET after it', {
      hint: 'nostrain run-training state.json dataset.json …, or --model NAME without STATE',
    });
  }
  assertWritable({ outputFormat: 'auto', ...flags });
  const settings = await readAll(command, flags, start);
  const dir = flags.dir ?? join(dataHome(), 'runs', folderName(settings.run));
  const interrupt = onInterrupt();
  try {
    const words = { title: `run ${settings.run}`, interrupt };
    await playToEnd({ settings, dir, dataset, start }, flags, words);
  } finally {
    interrupt.dispose();
  }
}

function trainBySpec(
  spec: string,
  state: string | undefined,
  flags: Flags,
  command: Command,
): Promise<void> {
  if (state === undefined) return trainIn(spec, flags, command);
  throw new ConfigError('flag/spec', 'a run with a spec starts from what its spec says', {
    hint: 'leave STATE and DATASET out',
  });
}

/** Preset, then file, then flags. STATE decides the model where it is given. */
async function readAll(
  command: Command,
  flags: WorkerFlags,
  start: Params | undefined,
): Promise<Settings> {
  const file = flags.settings === undefined ? {} : await settingsFromFile(flags.settings);
  const typed = settingsFromFlags(command);
  const asked: PartialSettings = { ...file, ...typed };
  if (start) return combineSettings(referenceDefaults, { ...modelOfState(start), ...asked });
  if (asked.model === undefined) {
    throw new ConfigError(
      'flag/model',
      'nothing to train: give --model NAME, a --settings file, or STATE and DATASET',
      {
        hint: `the models are ${Object.keys(presets).join(', ')}`,
      },
    );
  }
  const settings = combineSettings(presets[asked.model], asked);
  assertAgreeable(settings);
  return settings;
}

/** What a regression state is, in settings. */
function modelOfState(start: Params): PartialSettings {
  const model = readModel(start);
  if (model.runtime === 'linear-regression') return { model: 'linear' };
  return { model: 'mlp', hidden: [model.hidden] };
}

const folderName = (run: string): string => run.replace(/[^A-Za-z0-9._-]/g, '_');
