/** `nostrain witness who`: the committee of a round, drawn from members and entropy alone. Nothing is sent or asked. */
import { Command, Option } from 'commander';
import { isHex32, utf8 } from '../../base/bytes.ts';
import { sha256Hex } from '../../base/hash.ts';
import { committeeOf } from '../../consensus/committee/committee.ts';
import { firstEntropy } from '../../consensus/committee/entropy.ts';
import type { QuorumRule } from '../../consensus/committee/quorum.ts';
import { wholeFlag } from '../flags.ts';
import { asJson } from '../output.ts';
import { decimalFlag, digestFlag, quorumOption, seatsFlag, U32 } from '../witness/flags.ts';
import { readMembers } from '../witness/members-file.ts';

interface WhoFlags {
  readonly run: string;
  readonly epoch: number;
  readonly batch: number;
  readonly seats: number;
  readonly members: string;
  readonly entropy?: string;
  readonly weights: 'stake' | 'equal';
  readonly minStake: string;
  readonly quorum: QuorumRule;
  readonly json?: boolean;
}

export const witnessWho = (): Command =>
  new Command('who')
    .description('the keys on the committee of a round, best first')
    .requiredOption('--run <id>', 'run id (64 hex digits), or a name whose SHA-256 stands for it')
    .requiredOption('--members <file>', 'keys and stakes: JSON lines, a JSON array or a snapshot')
    .requiredOption('--epoch <n>', 'round', wholeFlag('--epoch', 0, U32))
    .option('--batch <n>', 'attempt at the round', wholeFlag('--batch', 0, U32), 0)
    .option('-k, --seats <n>', 'seats', seatsFlag, 64)
    .option('--entropy <hex>', 'of the round; without it that of round 0', digestFlag('--entropy'))
    .option('--min-stake <n>', 'who has less has no seat', decimalFlag('--min-stake'), '0')
    .addOption(
      new Option('--weights <rule>', 'the chance of a seat')
        .choices(['stake', 'equal'])
        .default('stake'),
    )
    .addOption(quorumOption())
    .option('--json', 'tell it as JSON')
    .action(async (flags: WhoFlags) => {
      const { epoch: round, batch: attempt, seats, weights, minStake, quorum, json } = flags;
      const run = isHex32(flags.run) ? flags.run : sha256Hex(utf8(flags.run));
      if (flags.entropy === undefined) {
        process.stderr.write(
          'no --entropy: drawn from the run id alone, which anybody can foresee\n',
        );
      }
      const entropy = flags.entropy ?? firstEntropy(run);
      const stakes = await readMembers(flags.members);
      const rules = { size: seats, quorum, weights, minStake };
      const draw = { run, round, attempt, entropy };
      const eligible = [...stakes.keys()];
      const committee = committeeOf({ ...draw, parent: run, eligible, stakes, rules });
      const { members } = committee;
      const told = { ...draw, seats: committee.size, quorum: committee.quorum };
      const rows = members.map((key) => ({ key, stake: String(stakes.get(key)) }));
      process.stdout.write(
        json ? asJson({ ...told, witnesses: rows }) : members.map((key) => `${key}\n`).join(''),
      );
    });
