/** `nostrain discover-checkpoints`: what could be resumed from, who wrote it, and who else says the same. */
import { Command } from 'commander';
import { indentedJson } from '../../formats/python-json.ts';
import { writeResult } from '../../terminal/output.ts';
import { agreements } from '../collect/agreement.ts';
import { discoverCheckpoints as discover } from '../collect/checkpoints.ts';
import { checkpointsMembers } from '../collect/members.ts';
import { addListeningFlags, type ListeningFlags, patienceOf } from './collect/listening-flags.ts';
import { assertNotNative } from './collect/native-wire.ts';
import { machinePorts, readRelays } from './collect/relay-flags.ts';
import { checkpointsText } from './collect/text.ts';
import { integer } from './number-flags.ts';

interface Flags extends ListeningFlags {
  readonly worker?: string;
  readonly minRound?: number;
  readonly faults: number;
  readonly json?: true;
  readonly output?: string;
}

const ABOUT = `
"latest" claims the highest round, and anybody can claim that. What speaks for a state is its author, if you know the key
(--worker KEY), or that FAULTS + 1 authors you know publish equal hashes of it; keys cost nothing, so authors you do not know
prove nothing.`;

export const discoverCheckpoints = (ports = machinePorts): Command =>
  addListeningFlags(
    new Command('discover-checkpoints').description(
      'list the checkpoints of a run that relays have, and which of them agree',
    ),
  )
    .option('--worker <key>', 'only checkpoints of this worker')
    .addOption(
      integer(
        '--min-round <n>',
        'only checkpoints of this completed round, from 0, or later ones',
        0,
      ),
    )
    .addOption(
      integer(
        '--faults <n>',
        'how many authors may lie: one more must publish equal hashes',
        0,
      ).default(1),
    )
    .option('--json', 'print one JSON document, the events in it')
    .option('-o, --output <file>', 'write it there instead of stdout')
    .addHelpText('after', ABOUT)
    .action(async (flags: Flags) => {
      const { run, worker, minRound, since, faults } = flags;
      const query = { run, worker, minRound, since, ...patienceOf(flags) };
      const found = await readRelays(discover, query, flags, ports);
      await assertNotNative('discover-checkpoints', found, flags, ports);
      const states = agreements(found.events);
      const text = flags.json
        ? `${indentedJson(checkpointsMembers(found, states, faults))}\n`
        : checkpointsText(found, states, faults);
      await writeResult(text, flags.output);
    });
