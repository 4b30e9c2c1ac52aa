/** Flags of commands that run a worker: data, folder, key, device and reports. */
import { type Command, Option } from 'commander';
import { isDisplayName } from '../friends/lobby.ts';
import { row, whole } from '../run/field.ts';
import type { TrainerSetup } from '../trainer/setup.ts';
import { addConnectionFlags, type ConnectionFlags } from './connection.ts';
import { checkedText, optionOf, whole as wholeFlag } from './flag-table.ts';
import { addOptions } from './options.ts';
import { type ReportMode, reportModes } from './reporter.ts';

export interface WorkerFlags extends ConnectionFlags {
  readonly name?: string;
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

const NAME = checkedText(
  '<name>',
  'what the others call you',
  'a name of at most 64 characters on one line',
  isDisplayName,
);
const DEVICES: readonly TrainerSetup['device'][] = ['auto', 'cpu', 'cuda', 'webgpu'];

const rare = {
  metrics: row(
    'port on this machine for OpenMetrics scrapers; 0 for any free port',
    whole(0, 65_535),
  ),
} as const;

/** Adds the flags that are not settings; `keyHome` is the folder in which a key is created. */
export function addWorkerFlags(command: Command, keyHome: string): Command {
  command
    .option('--settings <file>', 'JSON file with settings; flags override it')
    .option('--corpus <file>', 'text, .jsonl, CSV, https address or picture folder to train on')
    .addOption(optionOf('name', NAME))
    .option('--dir <dir>', 'folder of this worker (default: by run name)')
    .option('--key-file <file>', `secret key (default: created once in ${keyHome})`)
    .addOption(
      new Option('--sec-key <key>', 'secret key as hex or nsec; other users can see it').conflicts(
        'keyFile',
      ),
    )
    .addOption(new Option('--device <name>', 'device to train on').choices(DEVICES).default('auto'))
    .addOption(
      optionOf('threads', wholeFlag('<n>', 'threads of the engine (default: all cores)', 1, 1024)),
    )
    .addOption(new Option('--report <mode>', 'how to report progress').choices(reportModes))
    .option('--summary-out <file>', 'write a JSON summary of each round');
  return addConnectionFlags(addOptions(command, rare));
}
