/** What the commands that play a worker share: their flags, how they tell what happens, and what they leave behind. */
import { type Command, Option } from 'commander';
import type { RunEvent } from '../certified/events.ts';
import { createNativeSha256 } from '../node/native-sha256.ts';
import type { TrainerSetup } from '../node/trainer.ts';
import {
  assertHoldsModel,
  type StateOutput,
  writeState,
} from '../python/commands/state-formats.ts';
import { stateDigest } from '../tensor/digest.ts';
import type { WorkerState } from '../worker/state.ts';
import { addConnectionFlags, type ConnectionFlags, connectionOf } from './connection.ts';
import { wholeFlag } from './flags.ts';
import { type Interrupt, Interrupted } from './interrupt.ts';
import { asJson, writeNote, writeResult } from './output.ts';
import { type PlayOptions, play } from './play.ts';
import { createReporter, type ReportMode, reportModes } from './reporter.ts';

export interface WorkerFlags extends ConnectionFlags, StateOutput {
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

/** Adds the flags that are no settings; `keyHome` says where a key is made when none is given. */
export const addWorkerFlags = (command: Command, keyHome: string): Command =>
  addConnectionFlags(
    command
      .option('--settings <file>', 'settings as JSON; flags win over it')
      .option('--corpus <file>', 'text to train on (default: tiny Shakespeare, or a built-in one)')
      .option('--dir <dir>', 'folder of this worker (default: by run name in your data folder)')
      .option(
        '--key-file <file>',
        `secret key of this worker (default: made once, kept in ${keyHome})`,
      )
      .option('--sec-key <key>', 'secret key as hex or nsec; other users of this machine see it')
      .addOption(new Option('--device <name>', 'where to train').choices(DEVICES).default('auto'))
      .option('--threads <n>', 'threads of the engine (default: all cores)', threadsFlag)
      .addOption(new Option('--report <mode>', 'how to tell what happens').choices(reportModes))
      .option('--summary-out <file>', 'write what happened in each round there, as JSON'),
  );

/** Plays a worker to the end of its run, or to Ctrl-C, and tells of it under that title. */
export async function playToEnd<M extends object>(
  options: Omit<PlayOptions<M>, 'connection' | 'device' | 'report' | 'signal'>,
  flags: WorkerFlags,
  { title, interrupt }: { readonly title: string; readonly interrupt: Interrupt },
): Promise<void> {
  assertHoldsModel(flags, options.settings.model);
  const reporter = createReporter(flags.report, { title, workers: ['me'] });
  try {
    const report = (event: RunEvent) => reporter.event('me', event);
    const { signal } = interrupt;
    const connection = connectionOf(flags);
    await writeResults(await play({ ...flags, ...options, connection, report, signal }), flags);
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    const again = ['nostrain', ...process.argv.slice(2)].join(' ');
    writeNote(`stopped; everything is saved in ${options.dir}\n  go on with: ${again}`);
    process.exitCode = 1;
  } finally {
    reporter.close();
  }
}

async function writeResults({ params, rounds }: WorkerState, flags: WorkerFlags): Promise<void> {
  const { output, summaryOut } = flags;
  if (output !== undefined) await writeState(params, flags);
  if (summaryOut === undefined) return;
  await writeResult(
    asJson({ final_model_hash: stateDigest(params, createNativeSha256), rounds }),
    summaryOut,
  );
}
