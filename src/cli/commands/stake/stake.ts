/** `nostrain stake`: makes snapshots of who has how much at stake, compares them with their source, shows them, and signs links. */
import { Command } from 'commander';
import { npubEncode } from 'nostr-tools/nip19';
import { ConfigError, safeLine } from '../../../base/errors.ts';
import { formatCount } from '../../../base/numbers.ts';
import { sourceOf } from '../../../chain/rederive.ts';
import { formatStakeJson, parseStakeJson } from '../../../run/stake/stake-json.ts';
import {
  type StakeSnapshot,
  snapshotId,
  stakeDifference,
  totalStake,
} from '../../../run/stake/stake-snapshot.ts';
import { whole } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { type FlagRule, refuseUnused } from '../../../terminal/options.ts';
import { writeNote, writeOut, writeResult } from '../../../terminal/output.ts';
import { bar } from '../../../terminal/render/bars.ts';
import { alignColumns } from '../../../terminal/render/columns.ts';
import { type AccessFlags, accessOf, addAccessFlags } from '../../shared/endpoints.ts';
import { orRefuse, readKeys, readText } from '../../shared/files.ts';
import { publishOver } from '../../shared/stake-refresh.ts';
import { deriveSnapshot, type SnapshotFlags } from './derive.ts';
import { link } from './link.ts';
import { bond, deploy, exit, payOut } from './registry.ts';
import { slash } from './slash.ts';
import { addSnapshotFlags } from './snapshot-flags.ts';

export const stake = (): Command =>
  new Command('stake')
    .description(
      'make, verify and show snapshots of stakes, by which a run weighs its committee; link keys of other chains',
    )
    .addCommand(snapshot())
    .addCommand(verify())
    .addCommand(show())
    .addCommand(link())
    .addCommand(deploy())
    .addCommand(bond())
    .addCommand(exit())
    .addCommand(payOut())
    .addCommand(slash());

const snapshot = (): Command =>
  addSnapshotFlags(
    new Command('snapshot').description(
      'make a snapshot document, from a list of yours, an event or a chain',
    ),
  ).action(
    async (
      flags: SnapshotFlags & { readonly output?: string; readonly publish?: boolean },
      command: Command,
    ) => {
      refuseUnused(command, snapshotRules(flags));
      await interruptibly(async (signal) => {
        const made = await deriveSnapshot(flags, signal);
        await writeResult(formatStakeJson(made), flags.output);
        writeNote(`snapshot ${snapshotId(made)}: ${made.rows.length} keys at block ${made.height}`);
        if (flags.publish) await publishOver(flags.relay, made, signal);
      });
    },
  );

/** What each source is told. */
const snapshotRules = ({
  from,
  publish,
}: {
  readonly from: SnapshotFlags['from'];
  readonly publish?: boolean;
}): readonly FlagRule[] => {
  const isToken = from === 'erc20' || from === 'erc5805';
  const isEvm = from === 'registry' || isToken;
  return [
    { flags: ['list', 'unit'], goesWith: '--from file', holds: from === 'file' },
    { flags: ['id'], goesWith: '--from event', holds: from === 'event' },
    {
      flags: ['relay'],
      goesWith: '--from event, or --publish',
      holds: from === 'event' || publish === true,
    },
    {
      flags: ['rpc', 'agree', 'rpcTimeout', 'wait'],
      goesWith: 'stakes of a chain',
      holds: isEvm || from === 'psyche',
    },
    { flags: ['contract', 'height'], goesWith: '--from registry, erc20 or erc5805', holds: isEvm },
    { flags: ['fromBlock'], goesWith: '--from registry', holds: from === 'registry' },
    { flags: ['keys'], goesWith: '--from erc20 or erc5805', holds: isToken },
    { flags: ['balanceSlot'], goesWith: '--from erc20', holds: from === 'erc20' },
    {
      flags: ['chain', 'account', 'run', 'epoch', 'weights', 'links', 'cutoff'],
      goesWith: '--from psyche',
      holds: from === 'psyche',
    },
  ];
};

interface VerifyFlags extends AccessFlags {
  readonly id?: string;
  readonly keys?: string;
}

const verify = (): Command =>
  addAccessFlags(
    new Command('verify')
      .description('check a snapshot document, and derive it again from its chain')
      .argument('<file>', 'the document')
      .option('--id <hex>', 'the id it must have')
      .option('--keys <file>', 'tokens: keys whose balances count, one npub per line'),
  ).action(async (file: string, flags: VerifyFlags) => {
    await interruptibly(async (signal) => {
      const said = await readDocument(file);
      const id = snapshotId(said);
      if (flags.id !== undefined && flags.id !== id) {
        throw new ConfigError('stake/other', `${file} is snapshot ${id}, not ${flags.id}`, {
          hint: 'ask whoever made the run for the document with that id',
        });
      }
      writeOut(`snapshot ${id}: the document is whole\n`);
      if (said.strategy === 'file' || flags.rpc.length === 0) {
        const why = said.strategy === 'file' ? 'it is of no chain' : 'no --rpc is given';
        writeOut(`its numbers were not compared with anything: ${why}\n`);
        return;
      }
      const keys = flags.keys === undefined ? undefined : await readKeys(flags.keys);
      const source = sourceOf(said, { access: accessOf(flags), keys });
      const difference = stakeDifference(said, await source.snapshot(0, signal));
      if (difference === undefined) {
        writeOut(`${source.name} gives the same at block ${said.height}\n`);
        return;
      }
      const { field, one, other } = difference;
      throw new ConfigError(
        'stake/differs',
        `${field} is ${one} in the document, ${other} by ${source.name}`,
        { hint: 'trust neither before you have asked other endpoints with --rpc URL' },
      );
    });
  });

const show = (): Command =>
  new Command('show')
    .description('print the largest stakes of a snapshot and their shares')
    .argument('<file>', 'the document')
    .addOption(whole('--top <n>', 'how many keys to show', 1).default(20))
    .action(async (file: string, { top }: { readonly top: number }) => {
      const width = process.stdout.columns ?? 120;
      writeOut(formatStakes(await readDocument(file), width, top));
    });

const readDocument = async (file: string): Promise<StakeSnapshot> =>
  orRefuse(file, parseStakeJson(await readText(file)));

const BAR = 24;

/** At most `most` rows, the largest stakes first. */
function formatStakes(snapshot: StakeSnapshot, width: number, most: number): string {
  const { chain, strategy, params, height, blockHash, unit, rows } = snapshot;
  const total = totalStake(snapshot);
  const largest = rows.toSorted((a, b) =>
    a.stake === b.stake ? (a.key < b.key ? -1 : 1) : a.stake > b.stake ? -1 : 1,
  );
  const shown = largest.slice(0, most);
  const lines = shown.map(({ key, stake }) => {
    const share = Number((stake * 1_000_000n) / total) / 1_000_000;
    return [npubEncode(key), grouped(stake), `${(100 * share).toFixed(2)} %`, bar(share, BAR)];
  });
  const left = largest.length - shown.length;
  return `${[
    `snapshot ${snapshotId(snapshot)}`,
    `${strategy} on ${chain}, block ${height} ${blockHash.slice(0, 16)}…, ${safeLine(params)}`,
    `${formatCount(rows.length)} keys, ${grouped(total)} ${unit} in all`,
    ...(lines.length === 0
      ? []
      : ['', ...alignColumns([['key', unit, 'share', ''], ...lines], width)]),
    ...(left > 0 ? [`… and ${formatCount(left)} with less`] : []),
  ].join('\n')}\n`;
}

const grouped = (value: bigint): string => value.toString().replace(/\B(?=(?:\d{3})+$)/g, ',');
