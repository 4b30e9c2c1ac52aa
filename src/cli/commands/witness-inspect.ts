/** `nostrain witness inspect`: what committees stand up to, and how often a draw gives one that does not. */
import { Command } from 'commander';
import type { QuorumRule } from '../../consensus/committee/quorum.ts';
import { wholeFlag } from '../flags.ts';
import { asJson } from '../output.ts';
import { MOST_SEATS, many, quorumOption, seatsFlag, shareFlag, U32 } from '../witness/flags.ts';
import { readMembers } from '../witness/members-file.ts';
import { formatOdds, oddsOf } from '../witness/odds.ts';

const MOST_KEYS = 10_000_000;

interface InspectFlags {
  readonly keys?: number;
  readonly members?: string;
  readonly hostile?: readonly number[];
  readonly seats?: readonly number[];
  readonly quorum: QuorumRule;
  readonly differ: number;
  readonly rounds: number;
  readonly json?: boolean;
}

export const witnessInspect = (): Command =>
  new Command('inspect')
    .description('the odds that a committee is drawn whose quorum protects nobody')
    .option('--keys <n>', 'keys that may sit (default: 1000)', wholeFlag('--keys', 1, MOST_KEYS))
    .option('--members <file>', 'count them from a file instead')
    .option('--hostile <share>', 'of the keys, from 0 to 1; repeatable (default: 0.1, 0.2, 0.33)', many(shareFlag)) // biome-ignore format: one option
    .option('-k, --seats <n>', 'seats, repeatable (default: 16, 32, 64, 128, 256)', many(seatsFlag))
    .addOption(quorumOption())
    .option('--differ <n>', 'keys by which two recovery attempts differ', wholeFlag('--differ', 0, MOST_SEATS), 0) // biome-ignore format: one option
    .option('--rounds <n>', 'rounds of the run', wholeFlag('--rounds', 1, U32), 1000)
    .option('--json', 'tell it as JSON')
    .action(async ({ members, quorum: rule, json, ...flags }: InspectFlags) => {
      const counted = members === undefined ? 1000 : (await readMembers(members)).size;
      const { differ, rounds, keys = counted } = flags;
      const { hostile = [0.1, 0.2, 0.33], seats = [16, 32, 64, 128, 256] } = flags;
      const input = { keys, hostile, seats, rule, differ, rounds };
      const rows = oddsOf(input);
      process.stdout.write(json ? asJson({ keys, rule, rounds, rows }) : formatOdds(input, rows));
    });
