/** `nostrain stake`: creates, verifies and shows stake snapshots. */

import { npubEncode } from 'nostr-tools/nip19';
import { isHex32 } from '../../../base/bytes.ts';
import { ConfigError, safeLine } from '../../../base/errors.ts';
import { formatCount } from '../../../base/numbers.ts';
import { whileSlow } from '../../../base/slow.ts';
import { agree } from '../../../chain/endpoints.ts';
import { waitFinal } from '../../../chain/evm/blocks.ts';
import { dataOf, numberOf } from '../../../chain/evm/encoding.ts';
import { createRegistrySource } from '../../../chain/evm/stake-sources.ts';
import { createTokenSource } from '../../../chain/evm/token-source.ts';
import { parseLinks } from '../../../chain/psyche/links.ts';
import { createPsycheSource } from '../../../chain/psyche/psyche-source.ts';
import { createEventSource, parseStakeList, sourceOf } from '../../../chain/stake-documents.ts';
import {
  formatStakeJson,
  parseStakeJson,
  type StakeSnapshot,
  type StakeSource,
  snapshotId,
  stakeDifference,
  totalStake,
} from '../../../run/stake/stake-snapshot.ts';
import { defineCommand, defineGroup } from '../../../terminal/command.ts';
import {
  choice,
  type FlagValues,
  required,
  severalOr,
  text,
  toggle,
  whole,
  withDefault,
} from '../../../terminal/flag-table.ts';
import { type FlagRule, refuseUnused } from '../../../terminal/options.ts';
import { writeNote, writeOut, writeResult } from '../../../terminal/output.ts';
import { bar } from '../../../terminal/render/forecast.ts';
import { alignColumns } from '../../../terminal/render/text.ts';
import { accessFlags, accessOf } from '../../shared/endpoints.ts';
import { orRefuse, readKeys, readText } from '../../shared/files.ts';
import { findOver, publishOver } from '../../shared/stake-refresh.ts';
import { link, MAINNET } from './link.ts';
import { bond, deploy, exit, payOut } from './registry.ts';
import { slash } from './slash.ts';

const STAKE_SOURCES = ['file', 'event', 'registry', 'erc20', 'erc5805', 'psyche'] as const;

/** `--from` decides which of the flags apply: `snapshotRules`. */
const snapshotFlags = {
  from: required(choice('<source>', 'source of the stakes', STAKE_SOURCES)),
  output: { ...text('<file>', 'file to write (default: stdout)'), short: 'o' },
  list: text('<file>', '--from file: list with lines like npub1… 100'),
  unit: withDefault(text('<word>', '--from file: unit of the numbers'), 'stake'),
  id: text('<hex>', '--from event: id of the snapshot'),
  relay: severalOr('none', '<url>', 'relay to find the event on and to --publish to, repeatable'),
  publish: toggle('publish the snapshot to the relays as an event'),
  ...accessFlags,
  contract: text('<0x…>', 'address of the registry or token'),
  fromBlock: withDefault(whole('<n>', 'block that created the registry', 0), 0),
  height: whole('<n>', 'block of the snapshot (default: the latest final block)', 0),
  keys: text('<file>', 'tokens: keys whose balances count, one npub per line'),
  balanceSlot: whole('<n>', '--from erc20: storage slot of the balances, to prove them', 0),
  chain: withDefault(text('<caip2>', '--from psyche: Solana cluster'), MAINNET),
  account: text('<base58>', '--from psyche: coordinator account'),
  run: text('<name>', '--from psyche: run of the account'),
  epoch: { ...whole('<n>', '--from psyche: epoch whose clients count', 0), group: 'Basic:' },
  weights: {
    ...withDefault(
      choice('<how>', '--from psyche: equal weights, or points earned', ['equal', 'earned']),
      'equal',
    ),
    group: 'Basic:',
  },
  links: text('<file>', '--from psyche: signed links from accounts to Nostr keys'),
  cutoff: whole('<s>', '--from psyche: unix seconds at which links must be valid', 0),
};

type SnapshotFlags = FlagValues<typeof snapshotFlags>;

const snapshot = defineCommand({
  name: 'snapshot',
  help: 'create a stake snapshot from a list, an event or a chain',
  flags: snapshotFlags,
  async run(flags, { signal, command }) {
    refuseUnused(command, snapshotRules(flags));
    const made = await whileSlow('reading the stakes', writeNote, () =>
      deriveSnapshot(flags, signal),
    );
    await writeResult(formatStakeJson(made), flags.output);
    writeNote(`snapshot ${snapshotId(made)}: ${made.rows.length} keys at block ${made.height}`);
    if (flags.publish) await publishOver(flags.relay, made, signal);
  },
});

/** Returns which flags each source uses. */
const snapshotRules = ({ from, publish }: SnapshotFlags): readonly FlagRule[] => {
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

const verify = defineCommand({
  name: 'verify',
  help: 'check a stake snapshot, and derive it again from its chain',
  args: [['<file>', 'file of the snapshot']],
  flags: {
    id: text('<hex>', 'expected id of the snapshot'),
    keys: text('<file>', 'tokens: keys whose balances count, one npub per line'),
    ...accessFlags,
  },
  async run(flags, { args: [file], signal }) {
    const document = await readDocument(file);
    const id = snapshotId(document);
    if (flags.id !== undefined && flags.id !== id) {
      throw new ConfigError('stake/other', `${file} is snapshot ${id}, not ${flags.id}`, {
        hint: 'ask the author of the run for the snapshot with that id',
      });
    }
    writeOut(`snapshot ${id}: the document is valid\n`);
    if (document.strategy === 'file' || flags.rpc.length === 0) {
      const why = document.strategy === 'file' ? 'it is not from a chain' : 'no --rpc is given';
      writeOut(`the numbers were not verified: ${why}\n`);
      return;
    }
    const keys = flags.keys === undefined ? undefined : await readKeys(flags.keys);
    const source = sourceOf(document, { access: accessOf(flags), keys });
    const difference = stakeDifference(document, await source.snapshot(0, signal));
    if (difference === undefined) {
      writeOut(`${source.name} gives the same stakes at block ${document.height}\n`);
      return;
    }
    const { field, one, other } = difference;
    throw new ConfigError(
      'stake/differs',
      `${field} is ${one} in the document, ${other} by ${source.name}`,
      { hint: 'compare with other endpoints (--rpc URL) before you trust either' },
    );
  },
});

const show = defineCommand({
  name: 'show',
  help: 'print the largest stakes of a snapshot and their shares',
  args: [['<file>', 'file of the snapshot']],
  flags: {
    top: withDefault(whole('<n>', 'number of keys to show', 1), 20),
  },
  async run({ top }, { args: [file] }) {
    const width = process.stdout.columns ?? 120;
    writeOut(formatStakes(await readDocument(file), width, top));
  },
});

const readDocument = async (file: string): Promise<StakeSnapshot> =>
  orRefuse(file, parseStakeJson(await readText(file)));

const BAR = 24;

/** Formats at most `most` rows, the largest stakes first. */
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
    `${formatCount(rows.length)} keys, ${grouped(total)} ${unit} in total`,
    ...(lines.length === 0
      ? []
      : ['', ...alignColumns([['key', unit, 'share', ''], ...lines], width)]),
    ...(left > 0 ? [`… and ${formatCount(left)} with less`] : []),
  ].join('\n')}\n`;
}

const grouped = (value: bigint): string => value.toString().replace(/\B(?=(?:\d{3})+$)/g, ',');

async function deriveSnapshot(flags: SnapshotFlags, signal: AbortSignal): Promise<StakeSnapshot> {
  if (flags.from === 'file') {
    const file = needed(flags, 'list', '--list FILE, lines like: npub1… 100');
    return orRefuse(file, parseStakeList(await readText(file), flags.unit));
  }
  const source =
    flags.from === 'event'
      ? eventSource(flags)
      : await (flags.from === 'psyche' ? psycheSource(flags) : chainSource(flags, signal));
  return source.snapshot(0, signal);
}

async function psycheSource(flags: SnapshotFlags): Promise<StakeSource> {
  const account = needed(flags, 'account', '--account ADDRESS of the coordinator');
  const run = needed(flags, 'run', '--run NAME of the Psyche run');
  const file = needed(flags, 'links', '--links FILE, a JSON list: docs/stake.md');
  const { chain, weights } = flags;
  const epoch = needed(flags, 'epoch', '--epoch N: docs/stake.md has an example');
  const cutoff = needed(flags, 'cutoff', '--cutoff N: docs/stake.md has an example');
  const links = orRefuse(file, parseLinks(await readText(file)));
  const psycheRun = { account, run, weights, cutoff, links };
  return createPsycheSource({ ...accessOf(flags), chain }, psycheRun, { base: epoch, period: 0 });
}

function eventSource(flags: SnapshotFlags): StakeSource {
  const id = needed(flags, 'id', '--id HEX, the id of the snapshot');
  if (!isHex32(id))
    throw new ConfigError('flag/id', `--id ${id} is not a snapshot id`, {
      hint: 'give the 64 hex digits that `nostrain stake snapshot` printed',
    });
  return createEventSource(id, findOver(flags.relay));
}

async function chainSource(flags: SnapshotFlags, signal: AbortSignal): Promise<StakeSource> {
  const text = needed(flags, 'contract', '--contract 0x…');
  const contract = dataOf(text, 20);
  if (contract === undefined)
    throw new ConfigError('flag/contract', `--contract ${text} is not a contract address`, {
      hint: 'give 0x and 40 hex digits',
    });
  const access = accessOf(flags);
  const chainId = (number: number | undefined) => `eip155:${number}`;
  const ask = async (endpoint: (typeof access.endpoints.all)[number]) =>
    numberOf(await endpoint.call('eth_chainId', [], signal));
  const chain = chainId(await agree(access.endpoints, 'the chain', ask, chainId));
  const final = flags.from === 'erc5805' ? -1 : 0;
  const base =
    flags.height ?? Math.max(0, (await waitFinal({ ...access, chain }, 0, signal)) + final);
  const schedule = { base, period: 0 };
  const reach = { ...access, chain };
  if (flags.from === 'registry') {
    return createRegistrySource(reach, { contract, from: flags.fromBlock }, schedule);
  }
  const keys = await readKeys(needed(flags, 'keys', '--keys FILE, one npub per line'));
  const standard = flags.from === 'erc5805' ? 'erc5805' : 'erc20';
  const { balanceSlot } = flags;
  return createTokenSource(reach, { standard, token: contract, keys, balanceSlot }, schedule);
}

function needed<K extends keyof SnapshotFlags>(
  flags: SnapshotFlags,
  name: K,
  how: string,
): NonNullable<SnapshotFlags[K]> {
  const value = flags[name];
  if (value !== undefined && value !== null) return value;
  throw new ConfigError('flag/missing', `--from ${flags.from} needs --${name}`, { hint: how });
}

export const stake = defineGroup(
  'stake',
  'create, verify and show stake snapshots, which weigh the committee of a run; link ' +
    'keys of other chains',
  [snapshot, verify, show, link, deploy, bond, exit, payOut, slash],
);
