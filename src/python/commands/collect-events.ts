/** `nostrain collect-events`: the gradients of one round, as relays have them. */
import { Command } from 'commander';
import { indentedJson } from '../../formats/python-json.ts';
import { writeResult } from '../../terminal/output.ts';
import { collectGradients } from '../collect/gradients.ts';
import { gradientsMembers } from '../collect/members.ts';
import { addRoundFlags, type RoundFlags, roundQuery } from './collect/listening-flags.ts';
import { assertNotNative } from './collect/native-wire.ts';
import { machinePorts, readRelays } from './collect/relay-flags.ts';
import { gradientsText } from './collect/text.ts';

interface Flags extends RoundFlags {
  readonly json?: true;
  readonly output?: string;
}

export const collectEvents = (ports = machinePorts): Command =>
  addRoundFlags(
    new Command('collect-events').description(
      'collect the gradients of one round from relays: verified, each worker once, in the same order everywhere',
    ),
  )
    .option('--json', 'print one JSON document, the events in it')
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (flags: Flags) => {
      const found = await readRelays(collectGradients, roundQuery(flags), flags, ports);
      await assertNotNative('collect-events', found, flags, ports);
      const text = flags.json
        ? `${indentedJson(gradientsMembers(found, true))}\n`
        : gradientsText(found);
      await writeResult(text, flags.output);
    });
