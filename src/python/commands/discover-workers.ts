/** `nostrain discover-workers`: who is in a run, and whose heartbeats have stopped. */
import { Command } from 'commander';
import { indentedJson } from '../../formats/python-json.ts';
import { asJson, writeResult } from '../../terminal/output.ts';
import { workersMembers } from '../collect/members.ts';
import { discoverWorkers as discover, type WorkersFound } from '../collect/workers.ts';
import { addListeningFlags, type ListeningFlags, patienceOf } from './collect/listening-flags.ts';
import { type NativeWorker, nativeWorkers, relaysHeard } from './collect/native-wire.ts';
import { machinePorts, readRelays, relayPorts } from './collect/relay-flags.ts';
import { nativeWorkersText, workersText } from './collect/text.ts';
import { integer } from './number-flags.ts';

interface Flags extends ListeningFlags {
  readonly round?: number;
  readonly maxMissedHeartbeats: number;
  readonly json?: true;
  readonly output?: string;
}

export const discoverWorkers = (ports = machinePorts): Command =>
  addListeningFlags(
    new Command('discover-workers').description(
      'list the workers of a run by their heartbeats, on the wire of the Python reference or on nostrain/1',
    ),
  )
    .addOption(integer('--round <n>', 'only workers in this round, from 0, or a later one', 0))
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
      const isEmpty = found.events.length + found.stale.length === 0;
      const native = isEmpty
        ? await nativeWorkers(relaysHeard(flags, found), query, await relayPorts(flags, ports))
        : [];
      const text = native.length > 0 ? nativeText(found, native, flags) : pythonText(found, flags);
      await writeResult(text, flags.output);
    });

function pythonText(found: WorkersFound, { json }: Flags): string {
  return json ? `${indentedJson(workersMembers(found, true))}\n` : workersText(found);
}

/** Workers of the other wire: words for people count rounds from 1, JSON has the index. */
function nativeText(
  { run, relays }: WorkersFound,
  workers: readonly NativeWorker[],
  { json }: Flags,
): string {
  return json
    ? asJson({ relays, run, wire: 'nostrain/1', workers })
    : nativeWorkersText({ run, relays }, workers);
}
