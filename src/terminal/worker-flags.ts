/** Flags of commands that run a worker: data, folder, key, device and reports. */
import { isDisplayName } from '../friends/lobby.ts';
import { row, whole as wholeField } from '../run/field.ts';
import type { TrainerSetup } from '../trainer/setup.ts';
import { connectionFlags } from './connection.ts';
import {
  checkedText,
  choice,
  type FlagValues,
  setting,
  text,
  whole,
  withDefault,
} from './flag-table.ts';
import { reportModes } from './reporter.ts';

const DEVICES: readonly TrainerSetup['device'][] = ['auto', 'cpu', 'cuda', 'webgpu'];

/** The flags that are not settings; `keyHome` is the folder in which a key is created. */
export const workerFlags = (keyHome: string) => ({
  settings: text('<file>', 'JSON file with settings; flags override it'),
  corpus: text('<file>', 'text, .jsonl, CSV, https address or picture folder to train on'),
  name: checkedText(
    '<name>',
    'what the others call you',
    'a name of at most 64 characters on one line',
    isDisplayName,
  ),
  dir: text('<dir>', 'folder of this worker (default: by run name)'),
  keyFile: text('<file>', `secret key (default: created once in ${keyHome})`),
  secKey: {
    ...text('<key>', 'secret key as hex or nsec; other users can see it'),
    conflicts: 'keyFile',
  },
  device: withDefault(choice('<name>', 'device to train on', DEVICES), 'auto'),
  threads: whole('<n>', 'threads of the engine (default: all cores)', 1, 1024),
  report: choice('<mode>', 'how to report progress', reportModes),
  summaryOut: text('<file>', 'write a JSON summary of each round'),
  metrics: setting(
    row(
      'port on this machine for OpenMetrics scrapers; 0 for any free port',
      wholeField(0, 65_535),
    ),
  ),
  ...connectionFlags,
});

export type WorkerFlags = FlagValues<ReturnType<typeof workerFlags>>;
