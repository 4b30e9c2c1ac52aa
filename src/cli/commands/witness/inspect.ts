/** `nostrain witness inspect`: what committees stand up to, and how often a draw gives one that does not. */

import { Command, Option } from 'commander';
import type { QuorumRule } from '../../../consensus/committee/quorum.ts';
import {
  addConnectionFlags,
  type ConnectionFlags,
  connectionFlagNames,
  connectionOf,
} from '../../../terminal/connection.ts';
import { whole } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { refuseUnused } from '../../../terminal/options.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { hintOption } from '../../shared/member-flags.ts';
import { findRun } from '../../shared/with-relays.ts';
import { MOST_SEATS, many, seatsFlag, shareFlag, U32 } from './flags.ts';
import { readMembers } from './members-file.ts';
import { formatOdds, type OddsInput, oddsOf } from './odds.ts';

const MOST_KEYS = 10_000_000;

interface InspectFlags extends ConnectionFlags {
  readonly spec?: string;
  readonly relay?: readonly string[];
  readonly keys?: number;
  readonly allowPrivateRelays?: boolean;
  readonly members?: string;
  readonly hostile?: readonly number[];
  readonly seats?: readonly number[];
  readonly quorum?: QuorumRule;
  readonly differ: number;
  readonly rounds?: number;
  readonly json?: boolean;
}

export const witnessInspect = (): Command =>
  addConnectionFlags(
    new Command('inspect')
      .description(
        'print how likely a drawn committee has enough hostile members to forge, take over or stall a round',
      )
      .option(
        '--spec <run>',
        'file, naddr1… or name of a run: its founders, seats, quorum and rounds, unless said otherwise',
      )
      .option('--relay <url>', 'with --spec: relay to ask for it, repeatable', many(String))
      .addOption(hintOption())
      .addOption(
        whole('--keys <n>', 'keys that may sit (default: 1000)', 1, MOST_KEYS).conflicts('members'),
      )
      .option('--members <file>', 'count them from a file instead')
      .option(
        '--hostile <share>',
        'share of the keys that is hostile, from 0 to 1; repeatable (default: 0.1, 0.2, 0.33)',
        many(shareFlag),
      )
      .option(
        '-k, --seats <n>',
        'seats, repeatable (default: 16, 32, 64, 128, 256)',
        many(seatsFlag),
      )
      .addOption(
        new Option('--quorum <rule>', 'two thirds and one, or half and one (default: bft)').choices(
          ['bft', 'cft'],
        ),
      )
      .addOption(
        whole(
          '--differ <n>',
          'keys by which the lists of two recovery epochs differ',
          0,
          MOST_SEATS,
        ).default(0),
      )
      .addOption(
        whole('--rounds <n>', 'rounds of the run (default: 1000)', 1, U32).helpGroup('Basic:'),
      )
      .option('--json', 'print JSON'),
  ).action(async (flags: InspectFlags, command: Command) => {
    refuseUnused(command, [
      {
        flags: [...connectionFlagNames, 'allowPrivateRelays'],
        goesWith: '--spec',
        holds: flags.spec !== undefined,
      },
    ]);
    const said = await saidBy(flags);
    const counted =
      flags.members === undefined ? said.keys : (await readMembers(flags.members)).size;
    const { json, differ, keys = counted, quorum: rule = said.rule } = flags;
    const { hostile = [0.1, 0.2, 0.33], seats = said.seats, rounds = said.rounds } = flags;
    const input = { keys, hostile, seats, rule, differ, rounds };
    const rows = oddsOf(input);
    writeOut(json ? asJson({ keys, rule, rounds, rows }) : formatOdds(input, rows));
  });

/** What a run says, or what is usual. */
async function saidBy(
  flags: InspectFlags,
): Promise<Pick<OddsInput, 'keys' | 'seats' | 'rule' | 'rounds'>> {
  const { spec } = flags;
  if (spec === undefined) {
    return { keys: 1000, seats: [16, 32, 64, 128, 256], rule: 'bft', rounds: 1000 };
  }
  return interruptibly(async (signal) => {
    const { relay, allowPrivateRelays } = flags;
    const asked = { relays: relay, allowPrivateRelays, connection: connectionOf(flags), signal };
    const { founders, committee, training } = (await findRun(spec, asked)).spec;
    const { size, quorum: rule } = committee;
    return { keys: founders.length, seats: [size], rule, rounds: training.rounds };
  });
}
