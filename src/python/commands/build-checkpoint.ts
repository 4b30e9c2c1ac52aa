/** `nostrain build-checkpoint CHECKPOINT`: a checkpoint event of the Python reference around a checkpoint file. */
import { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { checkpointDraft } from '../wire/build-reference-event.ts';
import { type CheckpointFile, readCheckpointFile } from '../wire/checkpoint-file.ts';
import {
  type AuthorFlags,
  addAuthorFlags,
  createdAtOf,
  workerOf,
  writeEvent,
} from './events/authorship.ts';
import { integer } from './number-flags.ts';
import { readJsonText, readTextFile } from './payloads.ts';

interface Flags extends AuthorFlags {
  readonly historySlot?: number;
}

const WHAT = 'a training checkpoint';

export const buildCheckpointCommand = (): Command =>
  addAuthorFlags(
    new Command('build-checkpoint')
      .description('wrap a training checkpoint into an event (kind 33335), signed or not')
      .argument('<checkpoint>', 'JSON file that run-training --checkpoint-out wrote')
      .addOption(
        integer(
          '--history-slot <n>',
          'which of the kept checkpoints it replaces (default: none)',
          0,
        ),
      ),
  ).action(async (path: string, flags: Flags) => {
    const file = await readCheckpoint(path);
    const about = {
      worker: workerOf(flags, file.worker),
      slot: flags.historySlot,
      createdAt: createdAtOf(flags),
    };
    await writeEvent(() => checkpointDraft(about, file), flags);
  });

async function readCheckpoint(path: string): Promise<CheckpointFile> {
  const read = readCheckpointFile(readJsonText(await readTextFile(path, WHAT), path, WHAT));
  if (read.ok) return read.value;
  const { at, message } = read.issue;
  throw new ConfigError('checkpoint/refused', `${path} cannot be published, ${at}: ${message}`, {
    hint: 'give a file that `nostrain run-training --checkpoint-out` wrote',
  });
}
