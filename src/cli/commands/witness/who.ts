/** `nostrain witness who`: the committee of a round, drawn from members and entropy alone, or as the relays of a run have it. */

import { Command, Option } from 'commander';
import { isHex32, utf8 } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { sha256Hex } from '../../../base/hash.ts';
import { committeeInRun } from '../../../certified/history/catch-up.ts';
import { drawCommittee } from '../../../consensus/committee/committee.ts';
import type { QuorumRule } from '../../../consensus/committee/quorum.ts';
import { firstRandomness } from '../../../consensus/committee/randomness.ts';
import { tablesOf } from '../../../node/join/join-run.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import type { Committee } from '../../../run/committee.ts';
import type { WorkerId } from '../../../run/ids.ts';
import {
  addConnectionFlags,
  type ConnectionFlags,
  connectionFlagNames,
  connectionOf,
} from '../../../terminal/connection.ts';
import { roundOption, whole, wholeFlag } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { type FlagRule, refuseUnused } from '../../../terminal/options.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { neededBeacon } from '../../shared/beacon.ts';
import {
  addFollowFlags,
  type FollowFlags,
  followFlagNames,
  hintOption,
} from '../../shared/member-flags.ts';
import { readStakeFile } from '../../shared/stake-refresh.ts';
import { findRun, withRelays } from '../../shared/with-relays.ts';
import { decimalFlag, digestFlag, many, quorumOption, seatsFlag, U32 } from './flags.ts';
import { readMembers } from './members-file.ts';

interface DrawFlags {
  readonly run: string;
  readonly members: string;
  readonly round: number;
  readonly batch: number;
  readonly seats: number;
  readonly entropy?: string;
  readonly weights: 'stake' | 'equal';
  readonly minStake: string;
  readonly quorum: QuorumRule;
  readonly json?: boolean;
}

interface WhoFlags
  extends Omit<DrawFlags, 'run' | 'members' | 'round'>,
    ConnectionFlags,
    FollowFlags {
  readonly relay?: readonly string[];
  readonly run?: string;
  readonly members?: string;
  readonly round?: number;
  readonly epoch?: number;
  readonly spec?: string;
  readonly allowPrivateRelays?: boolean;
}

export const witnessWho = (): Command =>
  addFollowFlags(
    addConnectionFlags(
      new Command('who')
        .description('print the keys on the committee of a round, best first')
        .option(
          '--spec <run>',
          'file, naddr1… or name of a run: it says the rules, its relays the rest',
        )
        .option('--relay <url>', 'with --spec: relay to ask, repeatable', many(String))
        .addOption(hintOption())
        .option('--run <id>', 'run id (64 hex digits), or a name whose SHA-256 stands for it')
        .option('--members <file>', 'keys and stakes: JSON lines, a JSON array or a snapshot')
        .addOption(
          roundOption(
            '--round <n>',
            'round whose committee to draw (default with --spec: the one in progress)',
          ),
        )
        .addOption(
          whole('--epoch <n>', 'index of the round, from 0, as events have it', 0, U32).conflicts(
            'round',
          ),
        )
        .option('--batch <n>', 'recovery epoch of the round', wholeFlag('--batch', 0, U32), 0)
        .option('-k, --seats <n>', 'seats of the committee', seatsFlag, 64)
        .option(
          '--entropy <hex>',
          'randomness of the round (default: that of the first)',
          digestFlag('--entropy'),
        )
        .option(
          '--min-stake <n>',
          'least stake with which a key may have a seat',
          decimalFlag('--min-stake'),
          '0',
        )
        .addOption(
          new Option('--weights <rule>', 'chance of a seat: by stake, or equal')
            .choices(['stake', 'equal'])
            .helpGroup('Basic:')
            .default('stake'),
        )
        .addOption(quorumOption())
        .option('--json', 'print JSON'),
    ),
  ).action((flags: WhoFlags, command: Command) => {
    refuseUnused(command, rulesOf(flags));
    return flags.spec === undefined ? drawFrom(asked(flags)) : drawIn(flags.spec, flags);
  });

/** A run says its own rules; a draw without one asks nobody. */
const rulesOf = ({ spec }: WhoFlags): readonly FlagRule[] => [
  {
    flags: ['run', 'members', 'seats', 'entropy', 'minStake', 'weights', 'quorum'],
    goesWith: 'a draw without --spec',
    holds: spec === undefined,
  },
  {
    flags: [...connectionFlagNames, ...followFlagNames],
    goesWith: '--spec',
    holds: spec !== undefined,
  },
];

/** What a draw without a run needs. */
function asked(flags: WhoFlags): DrawFlags {
  const { run, members, round = flags.epoch } = flags;
  if (run !== undefined && members !== undefined && round !== undefined) {
    return { ...flags, run, members, round };
  }
  throw new ConfigError('flag/missing', 'there is nothing to draw from', {
    hint: 'say --spec FILE or naddr1…, or --run ID --members FILE --round N',
  });
}

async function drawFrom(flags: DrawFlags): Promise<void> {
  const { round, batch: attempt, seats, weights, minStake, quorum } = flags;
  const run = isHex32(flags.run) ? flags.run : sha256Hex(utf8(flags.run));
  if (flags.entropy === undefined) {
    writeNote('no --entropy: drawn from the run id alone, which anybody can foresee');
  }
  const entropy = flags.entropy ?? firstRandomness(run);
  const stakes = await readMembers(flags.members);
  const rules = { size: seats, quorum, weights, minStake };
  const draw = { run, round, attempt, entropy };
  const eligible = [...stakes.keys()];
  tell(drawCommittee({ ...draw, parent: run, eligible, stakes, rules }), draw, stakes, flags.json);
}

async function drawIn(source: string, flags: WhoFlags): Promise<void> {
  await interruptibly(async (signal) => {
    const { round: asked = flags.epoch, batch: attempt } = flags;
    const wanted = { round: asked, attempt };
    const found = await committeeOn(source, flags, wanted, signal);
    const { run, round, ledger } = found.chain;
    const draw = { run, round, attempt, entropy: ledger.entropy ?? '' };
    tell(found.committee, draw, found.stakes, flags.json);
  });
}

/** Of a run by its file or address, from its relays. */
async function committeeOn(
  source: string,
  flags: WhoFlags,
  wanted: Parameters<typeof committeeInRun>[1],
  signal: AbortSignal,
): ReturnType<typeof committeeInRun> {
  const { relay, allowPrivateRelays } = flags;
  const asking = { relays: relay, allowPrivateRelays, connection: connectionOf(flags), signal };
  const { spec, relays: urls, connection } = await findRun(source, asking);
  const tables = tablesOf(await readStakeFile(flags.stake));
  return withRelays(urls, { connection, signal }, (board) => {
    const beacon = neededBeacon(spec, flags);
    return committeeInRun(spec, wanted, { ...board, beacon, tables, crypto: nativeCrypto });
  });
}

interface Draw {
  readonly run: string;
  readonly round: number;
  readonly attempt: number;
  readonly entropy: string;
}

function tell(
  { members, size, quorum }: Committee,
  draw: Draw,
  stakes: ReadonlyMap<WorkerId, bigint> | null,
  json: boolean | undefined,
): void {
  const rows = members.map((key) => ({ key, stake: String(stakes?.get(key) ?? 1n) }));
  writeOut(
    json
      ? asJson({ ...draw, seats: size, quorum, witnesses: rows })
      : members.map((key) => `${key}\n`).join(''),
  );
}
