/** Flags of the commands that run a worker: data, folder, key, device and how to report. */
import { type Command, Option } from 'commander';
import type { TrainerSetup } from '../trainer/setup.ts';
import { addConnectionFlags, type ConnectionFlags } from './connection.ts';
import { whole } from './flags.ts';
import { type ReportMode, reportModes } from './reporter.ts';

export interface WorkerFlags extends ConnectionFlags {
  readonly summaryOut?: string;
  readonly settings?: string;
  readonly corpus?: string;
  readonly dir?: string;
  readonly keyFile?: string;
  readonly secKey?: string;
  readonly device: TrainerSetup['device'];
  readonly threads?: number;
  readonly report?: ReportMode;
  readonly metrics?: number;
}

const DEVICES: readonly TrainerSetup['device'][] = ['auto', 'cpu', 'cuda', 'webgpu'];

/** Adds the flags that are no settings; `keyHome` says where a key is made when none is given. */
export const addWorkerFlags = (command: Command, keyHome: string): Command =>
  addConnectionFlags(
    command
      .option('--settings <file>', 'settings as JSON; flags win over it')
      .option(
        '--corpus <file>',
        'what to train on: a text or .jsonl file or a CSV, or the https address of one; or a folder of pictures (default: tiny Shakespeare or a built-in text; forecaster, vit: made up)',
      )
      .option('--dir <dir>', 'folder of this worker (default: by run name in your data folder)')
      .option(
        '--key-file <file>',
        `secret key of this worker (default: made once, kept in ${keyHome})`,
      )
      .addOption(
        new Option(
          '--sec-key <key>',
          'secret key as hex or nsec; other users of this machine see it',
        ).conflicts('keyFile'),
      )
      .addOption(new Option('--device <name>', 'where to train').choices(DEVICES).default('auto'))
      .addOption(whole('--threads <n>', 'threads of the engine (default: all cores)', 1, 1024))
      .addOption(
        new Option(
          '--report <mode>',
          'how to report progress: a live view, plain lines, or NDJSON (default: live on a terminal, else plain)',
        ).choices(reportModes),
      )
      .addOption(
        whole(
          '--metrics <port>',
          'show numbers for OpenMetrics scrapers at this port of this machine; 0 takes any free one',
          0,
          65535,
        ),
      )
      .option('--summary-out <file>', 'write what happened in each round there, as JSON'),
  );
