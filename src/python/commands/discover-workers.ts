/** `nostrain discover-workers`: who is in a run, and whose heartbeats have stopped. */
import { Command } from 'commander';
import { writeResult } from '../../terminal/output.ts';
import { workersMembers } from '../collect/members.ts';
import { discoverWorkers as discover } from '../collect/workers.ts';
import { indentedJson } from '../json.ts';
import { addListeningFlags, type ListeningFlags, patienceOf } from './collect/listening-flags.ts';
import { machinePorts, readRelays } from './collect/relay-flags.ts';
import { workersText } from './collect/text.ts';
import { integer } from './number-flags.ts';

interface Flags extends ListeningFlags {
  readonly round?: number;
  readonly maxMissedHeartbeats: number;
  readonly json?: true;
  readonly output?: string;
}

export const discoverWorkers = (ports = machinePorts): Command =>
  addListeningFlags(
    new Command('discover-workers').description('list the workers of a run by their heartbeats'),
  )
    .addOption(integer('--round <n>', 'only workers in this round or a later one', 0))
    .addOption(
      integer(
        '--max-missed-heartbeats <n>',
        'a worker is gone after missing this many of its own intervals',
        1,
      ).default(3),
    )
    .option('--json', 'print one JSON document, the events in it')
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (flags: Flags) => {
      const { run, round, since, maxMissedHeartbeats: maxMissed } = flags;
      const query = { run, round, since, maxMissed, ...patienceOf(flags) };
      const found = await readRelays(discover, query, flags, ports);
      const text = flags.json
        ? `${indentedJson(workersMembers(found, true))}\n`
        : workersText(found);
      await writeResult(text, flags.output);
    });
