/** `nostrain witness`: draws the committee of a round, and computes how likely a committee fails. */

import { Command } from 'commander';
import { isHex32, utf8 } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { sha256Hex } from '../../../base/hash.ts';
import { formatCount } from '../../../base/numbers.ts';
import { committeeInRun } from '../../../certified/history/catch-up.ts';
import { drawCommittee } from '../../../consensus/committee/committee.ts';
import { firstRandomness } from '../../../consensus/committee/randomness.ts';
import { type Odds, type Risk, type RiskInput, riskOf } from '../../../consensus/committee/risk.ts';
import type { Committee } from '../../../run/committee.ts';
import type { WorkerId } from '../../../run/ids.ts';
import type { RunSpec } from '../../../run/spec/run-spec.ts';
import { defineCommand } from '../../../terminal/command.ts';
import { connectionFlagNames, connectionFlags } from '../../../terminal/connection.ts';
import {
  checkedText,
  choice,
  type FlagValues,
  parsed,
  repeated,
  roundFlag,
  several,
  text,
  toggle,
  whole,
  withDefault,
  wrongValue,
} from '../../../terminal/flag-table.ts';
import { type FlagRule, refuseUnused } from '../../../terminal/options.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { alignColumns } from '../../../terminal/render/text.ts';
import { standPorts } from '../../shared/beacon.ts';
import { followFlagNames, followFlags, privateRelaysFlag } from '../../shared/member-flags.ts';
import { findRun, withRelaysOf } from '../../shared/with-relays.ts';
import { MOST_SEATS, readMembers, U32 } from './members.ts';

export const witness = (): Command =>
  new Command('witness')
    .description(
      'draw the committees of witnesses that certify rounds; compute how safe a committee size is',
    )
    .addCommand(witnessWho())
    .addCommand(witnessInspect())
    .addCommand(witnessBench(), { hidden: true });

/** Removed command: reports the replacement. */
const witnessBench = (): Command =>
  new Command('bench')
    .argument('[flags...]')
    .allowUnknownOption()
    .action(() => {
      throw new ConfigError(
        'flag/moved',
        'the benchmark of committee draws is no longer a command',
        {
          hint: 'run it in a source checkout: npm run bench:witness',
        },
      );
    });

const whoFlags = {
  spec: text('<run>', 'file, naddr1… or name of a run, whose rules and members are used'),
  relay: several('<url>', 'with --spec: relay to ask, repeatable'),
  allowPrivateRelays: privateRelaysFlag,
  run: text('<id>', 'run id (64 hex digits), or a name, of which the SHA-256 is used'),
  members: text('<file>', 'keys and stakes: JSON lines, a JSON array or a snapshot'),
  round: roundFlag(
    '<n>',
    'round whose committee to draw (default with --spec: the one in progress)',
  ),
  epoch: {
    ...whole('<n>', 'index of the round, from 0, as in events', 0, U32),
    conflicts: 'round',
  },
  batch: withDefault(whole('<n>', 'recovery epoch of the round', 0, U32), 0),
  seats: { ...withDefault(whole('<n>', 'seats of the committee', 1, MOST_SEATS), 64), short: 'k' },
  entropy: checkedText(
    '<hex>',
    'randomness of the round (default: that of the first round)',
    '64 lowercase hex digits',
    isHex32,
  ),
  minStake: withDefault(
    checkedText('<n>', 'minimum stake for a seat', 'a whole number', (text) =>
      /^\d{1,39}$/.test(text),
    ),
    '0',
  ),
  weights: {
    ...withDefault(
      choice('<rule>', 'chance of a seat: by stake, or equal', ['stake', 'equal']),
      'stake',
    ),
    group: 'Basic:',
  },
  quorum: withDefault(
    choice('<rule>', 'bft: two thirds and one; cft: half and one', ['bft', 'cft']),
    'bft',
  ),
  json: toggle('print JSON'),
  ...connectionFlags,
  ...followFlags,
};

type WhoFlags = FlagValues<typeof whoFlags>;

const witnessWho = defineCommand({
  name: 'who',
  help: 'print the keys on the committee of a round, best first',
  flags: whoFlags,
  run(flags, invocation) {
    refuseUnused(invocation.command, rulesOf(flags));
    return flags.spec === undefined
      ? drawFrom(flags)
      : drawIn(flags.spec, flags, invocation.signal);
  },
});

/** Returns which flags apply: with --spec the run sets the rules, without it no relay is asked. */
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

/** Draws from a file of members, without network access. */
async function drawFrom(flags: WhoFlags): Promise<void> {
  const { run: named, members, round = flags.epoch, batch: attempt } = flags;
  if (named === undefined || members === undefined || round === undefined) {
    throw new ConfigError('flag/missing', 'no members to draw from', {
      hint: 'use --spec FILE or naddr1…, or --run ID --members FILE --round N',
    });
  }
  const run = isHex32(named) ? named : sha256Hex(utf8(named));
  if (flags.entropy === undefined) {
    writeNote('no --entropy: drawn from the run id alone, so anybody can predict the result');
  }
  const { seats: size, weights, minStake, quorum, entropy = firstRandomness(run) } = flags;
  const stakes = await readMembers(members);
  const rules = { size, quorum, weights, minStake };
  const draw = { run, round, attempt, entropy };
  const eligible = [...stakes.keys()];
  printCommittee(
    drawCommittee({ ...draw, parent: run, eligible, stakes, rules }),
    draw,
    stakes,
    flags.json,
  );
}

/** Draws the committee of a run, from its spec and its relays. */
async function drawIn(source: string, flags: WhoFlags, signal: AbortSignal): Promise<void> {
  const target = await findRun(source, flags, { signal });
  const ports = await standPorts(target.spec, flags);
  const wanted = { round: flags.round ?? flags.epoch, attempt: flags.batch };
  const { chain, committee, stakes } = await withRelaysOf(target, { signal }, (relaySession) =>
    committeeInRun(target.spec, wanted, { ...relaySession, ...ports }),
  );
  const { run, round, ledger } = chain;
  const draw = { run, round, attempt: flags.batch, entropy: ledger.entropy ?? '' };
  printCommittee(committee, draw, stakes, flags.json);
}

interface Draw {
  readonly run: string;
  readonly round: number;
  readonly attempt: number;
  readonly entropy: string;
}

function printCommittee(
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

const MOST_KEYS = 10_000_000;
const USUAL = { keys: 1000, seats: [16, 32, 64, 128, 256], rule: 'bft', rounds: 1000 } as const;

function shareOf(text: string, flag: string): number {
  const share = Number(text);
  if (text.trim() !== '' && share >= 0 && share < 1) return share;
  throw wrongValue(flag, text, 'a share from 0 to below 1');
}

const witnessInspect = defineCommand({
  name: 'inspect',
  help:
    'print how likely a drawn committee has enough hostile members to forge, take over or ' +
    'stall a round',
  flags: {
    spec: text(
      '<run>',
      'file, naddr1… or name of a run whose founders, seats, quorum and rounds are the defaults',
    ),
    relay: several('<url>', 'with --spec: relay to ask for the run, repeatable'),
    allowPrivateRelays: privateRelaysFlag,
    keys: {
      ...whole('<n>', 'keys that may sit (default: 1000)', 1, MOST_KEYS),
      conflicts: 'members',
    },
    members: text('<file>', 'file of members to count instead of --keys'),
    hostile: repeated(
      parsed(
        '<share>',
        'share of hostile keys, from 0 to 1; repeatable (default: 0.1, 0.2, 0.33)',
        shareOf,
      ),
    ),
    seats: {
      ...repeated(whole('<n>', 'seats, repeatable (default: 16, 32, 64, 128, 256)', 1, MOST_SEATS)),
      short: 'k',
    },
    quorum: choice('<rule>', 'two thirds and one, or half and one (default: bft)', ['bft', 'cft']),
    differ: withDefault(
      whole('<n>', 'keys by which the lists of two recovery epochs differ', 0, MOST_SEATS),
      0,
    ),
    rounds: { ...whole('<n>', 'rounds of the run (default: 1000)', 1, U32), group: 'Basic:' },
    json: toggle('print JSON'),
    ...connectionFlags,
  },
  async run(flags, invocation) {
    refuseUnused(invocation.command, [
      {
        flags: [...connectionFlagNames, 'allowPrivateRelays'],
        goesWith: '--spec',
        holds: flags.spec !== undefined,
      },
    ]);
    const defaults =
      flags.spec === undefined
        ? USUAL
        : committeeOf((await findRun(flags.spec, flags, { signal: invocation.signal })).spec);
    const counted =
      flags.members === undefined ? defaults.keys : (await readMembers(flags.members)).size;
    const { json, differ, keys = counted, quorum: rule = defaults.rule } = flags;
    const { hostile = [0.1, 0.2, 0.33], seats = defaults.seats, rounds = defaults.rounds } = flags;
    const input = { keys, hostile, seats, rule, differ, rounds };
    const rows = oddsOf(input);
    writeOut(json ? asJson({ keys, rule, rounds, rows }) : formatOdds(input, rows));
  },
});

const committeeOf = ({ founders, committee, training }: RunSpec) => ({
  keys: founders.length,
  seats: [committee.size],
  rule: committee.quorum,
  rounds: training.rounds,
});

interface OddsInput extends Omit<RiskInput, 'hostile' | 'seats'> {
  readonly hostile: readonly number[];
  readonly seats: readonly number[];
}

interface OddsRow extends Risk {
  readonly hostile: number;
  /** d. */
  readonly differ: number;
}

const oddsOf = ({ hostile, seats, ...rest }: OddsInput): readonly OddsRow[] =>
  hostile.flatMap((share) =>
    seats.map((each) => {
      const danger = { ...rest, hostile: share, seats: each };
      return { hostile: share, differ: rest.differ, ...riskOf(danger) };
    }),
  );

function formatOdds(input: OddsInput, rows: readonly OddsRow[]): string {
  const { keys, rule, rounds, differ } = input;
  const heads = ['hostile', 'K', 'k', 'away', 'f', 'd', 'forgery', 'takeover', 'stall'];
  const cells = rows.map(({ hostile, seats, quorum, away, equivocate, ...row }) => [
    `${Number((100 * hostile).toFixed(2))} %`,
    ...[seats, quorum, away, equivocate, row.differ].map(String),
    ...[row.forgery, row.takeover, row.stall].map(wordOdds),
  ]);
  const lines = [
    `${formatCount(keys)} keys that may sit, quorum ${rule}, ${formatCount(rounds)} rounds`,
    '',
    ...alignColumns([heads, ...cells], 100),
    '',
    'K seats, k decide; up to `away` may be absent; f may equivocate. Odds: per round / per ' +
      'run.',
    'forgery: more than f are hostile: two outcomes of a round can be certified.',
    'takeover: k are hostile: they certify any outcome. stall: hostile silence delays a round.',
    differ === 0
      ? 'd = 0: first committee. Recovery epochs whose lists differ in d keys tolerate up to d ' +
        'fewer.'
      : `d = ${differ}: recovery epochs whose lists differ in this many keys.`,
  ];
  return `${lines.join('\n')}\n`;
}

const wordOdds = ({ perRound, perRun }: Odds): string => `${short(perRound)} / ${short(perRun)}`;

const short = (odds: number): string => {
  if (odds === 0 || odds === 1) return String(odds);
  return odds >= 0.01 ? odds.toFixed(2) : odds.toExponential(0);
};
