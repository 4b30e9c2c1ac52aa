/** `nostrain run-training`: one worker of a run; the same command goes on where it stopped. */
import { join } from 'node:path';
import { Argument, Command, Option } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { readModel, writeModel } from '../../model/regression/layout.ts';
import { dataHome } from '../../node/data-home.ts';
import { readStateFile } from '../../node/state-io.ts';
import type { TrainerSetup } from '../../node/trainer.ts';
import { presets, referenceDefaults } from '../../run/presets.ts';
import type { PartialSettings, Settings } from '../../run/settings.ts';
import { stateDigest } from '../../tensor/digest.ts';
import type { Params } from '../../tensor/params.ts';
import type { WorkerEvent } from '../../worker/events.ts';
import type { WorkerState } from '../../worker/state.ts';
import { addConnectionFlags, type ConnectionFlags, connectionOf } from '../connection.ts';
import {
  addSettingFlags,
  assertAgreeable,
  combineSettings,
  settingsFromFile,
  settingsFromFlags,
  wholeFlag,
} from '../flags.ts';
import { Interrupted, onInterrupt } from '../interrupt.ts';
import { asJson, writeResult } from '../output.ts';
import { play } from '../play.ts';
import { createReporter, type ReportMode, reportModes } from '../reporter.ts';
import { assertWritable, writeState } from '../state-formats.ts';

interface Flags extends ConnectionFlags {
  readonly output?: string;
  readonly summaryOut?: string;
  readonly settings?: string;
  readonly corpus?: string;
  readonly dir?: string;
  readonly keyFile?: string;
  readonly secKey?: string;
  readonly device: TrainerSetup['device'];
  readonly threads?: number;
  readonly report?: ReportMode;
}

const threadsFlag = wholeFlag('--threads', 1, 1024);

const DEVICES: readonly TrainerSetup['device'][] = ['auto', 'cpu', 'cuda', 'webgpu'];

export const runTraining = (): Command =>
  addConnectionFlags(
    addSettingFlags(
      new Command('run-training')
        .description('train as one worker of a run; repeat the command to go on after a stop')
        .addArgument(new Argument('[state]', 'regression: JSON state to start from'))
        .addArgument(new Argument('[dataset]', 'regression: JSON dataset to train on'))
        .option('--settings <file>', 'settings as JSON; flags win over it')
        .option(
          '--corpus <file>',
          'text to train on (default: tiny Shakespeare, or a built-in one)',
        )
        .option('--dir <dir>', 'folder of this worker (default: by run name in your data folder)')
        .option(
          '--key-file <file>',
          'secret key of this worker (default: made once, kept in --dir)',
        )
        .option('--sec-key <key>', 'secret key as hex or nsec; other users of this machine see it')
        .addOption(new Option('--device <name>', 'where to train').choices(DEVICES).default('auto'))
        .option('--threads <n>', 'threads of the engine (default: all cores)', threadsFlag)
        .addOption(new Option('--report <mode>', 'how to tell what happens').choices(reportModes))
        .addOption(new Option('--codec <name>', 'how payloads are packed').choices(['zlib']))
        .option('--summary-out <file>', 'write what happened in each round there, as JSON')
        .option('-o, --output <file>', 'write the final state there, as JSON'),
    ),
  ).action(train);

async function train(
  state: string | undefined,
  dataset: string | undefined,
  flags: Flags,
  command: Command,
): Promise<void> {
  const start = state === undefined ? undefined : writeModel(readModel(await readStateFile(state)));
  if (start && dataset === undefined) {
    throw new ConfigError('flag/dataset', 'STATE needs a DATASET after it', {
      hint: 'nostrain run-training state.json dataset.json …, or --model NAME without STATE',
    });
  }
  assertWritable({ outputFormat: 'auto', ...flags });
  const settings = await readAll(command, flags, start);
  const dir = flags.dir ?? join(dataHome(), 'runs', folderName(settings.run));
  const connection = connectionOf(flags);
  const reporter = createReporter(flags.report, { title: `run ${settings.run}`, workers: ['me'] });
  const interrupt = onInterrupt();
  try {
    const report = (event: WorkerEvent) => reporter.event('me', event);
    const { signal } = interrupt;
    await writeResults(
      await play({ ...flags, settings, dir, dataset, start, connection, report, signal }),
      flags,
    );
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    const again = ['nostrain', ...process.argv.slice(2)].join(' ');
    process.stderr.write(`stopped; everything is saved in ${dir}\n  go on with: ${again}\n`);
    process.exitCode = 1;
  } finally {
    reporter.close();
    interrupt.dispose();
  }
}

async function writeResults({ params, rounds }: WorkerState, flags: Flags): Promise<void> {
  const { output, summaryOut } = flags;
  if (output !== undefined) await writeState(params, { outputFormat: 'auto', output });
  if (summaryOut === undefined) return;
  await writeResult(asJson({ final_model_hash: stateDigest(params), rounds }), summaryOut);
}

/** Preset, then file, then flags. STATE decides the model where it is given. */
async function readAll(
  command: Command,
  flags: Flags,
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
