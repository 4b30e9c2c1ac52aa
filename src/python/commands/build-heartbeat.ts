/** `nostrain build-heartbeat`: a heartbeat event of the Python reference. */
import { Command } from 'commander';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { heartbeatDraft } from '../wire/build-reference-event.ts';
import {
  type AuthorFlags,
  addAuthorFlags,
  createdAtOf,
  workerOf,
  writeEvent,
} from './events/authorship.ts';
import { integerFlag } from './number-flags.ts';

interface Flags extends AuthorFlags {
  readonly run: string;
  readonly round: number;
  readonly heartbeatInterval: number;
  readonly examples?: number;
  readonly capability?: readonly string[];
  readonly advertiseRelay?: readonly string[];
}

const collect = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  value,
];

export const buildHeartbeat = (): Command =>
  addAuthorFlags(
    new Command('build-heartbeat')
      .description('write a heartbeat event (kind 33334), signed or not')
      .requiredOption('--run <name>', 'name of the run')
      .requiredOption('--round <n>', 'round the worker is in, from 0', integerFlag('--round', 0))
      .option(
        '--heartbeat-interval <s>',
        'seconds until the next one is due',
        integerFlag('--heartbeat-interval', 1),
        60,
      )
      .option('--examples <n>', 'examples the worker has', integerFlag('--examples', 1))
      .option(
        '--capability <word>',
        'what the worker can do, repeatable (default: gradient-event)',
        collect,
      )
      .option('--advertise-relay <url>', 'where else to find the worker, repeatable', collect),
  ).action(async (flags: Flags) => {
    const { run, round, examples, heartbeatInterval: interval } = flags;
    const about = {
      ...{ run, round, examples, interval },
      worker: workerOf(flags),
      capabilities: flags.capability,
      relays: flags.advertiseRelay?.map(withoutSecrets),
      createdAt: createdAtOf(flags),
    };
    await writeEvent(() => heartbeatDraft(about), flags);
  });
