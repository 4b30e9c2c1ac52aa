/** `nostrain build-heartbeat`: a heartbeat event of the Python reference. */
import { Command } from 'commander';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { repeatable } from '../../terminal/flags.ts';
import { heartbeatDraft } from '../wire/build-reference-event.ts';
import {
  type AuthorFlags,
  addAuthorFlags,
  createdAtOf,
  workerOf,
  writeEvent,
} from './events/authorship.ts';
import { integer } from './number-flags.ts';

interface Flags extends AuthorFlags {
  readonly run: string;
  readonly round: number;
  readonly heartbeatInterval: number;
  readonly examples?: number;
  readonly capability?: readonly string[];
  readonly advertiseRelay?: readonly string[];
}

export const buildHeartbeat = (): Command =>
  addAuthorFlags(
    new Command('build-heartbeat')
      .description('write a heartbeat event (kind 33334), signed or not')
      .requiredOption('--run <name>', 'name of the run')
      .addOption(integer('--round <n>', 'round the worker is in, from 0', 0).makeOptionMandatory())
      .addOption(
        integer('--heartbeat-interval <s>', 'seconds until the next one is due', 1).default(60),
      )
      .addOption(integer('--examples <n>', 'examples the worker has', 1))
      .addOption(
        repeatable(
          '--capability <word>',
          'what the worker can do, repeatable (default: gradient-event)',
        ),
      )
      .addOption(
        repeatable('--advertise-relay <url>', 'where else to find the worker, repeatable'),
      ),
  ).action(async (flags: Flags) => {
    const { run, round, examples, heartbeatInterval: interval } = flags;
    const about = {
      run,
      round,
      examples,
      interval,
      worker: workerOf(flags),
      capabilities: flags.capability,
      relays: flags.advertiseRelay?.map(withoutSecrets),
      createdAt: createdAtOf(flags),
    };
    await writeEvent(() => heartbeatDraft(about), flags);
  });
