/** From flags to the snapshot they ask for: which source, of which block. */

import { isHex32 } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { agree } from '../../../chain/endpoints.ts';
import { waitFinal } from '../../../chain/evm/blocks.ts';
import { dataOf, numberOf } from '../../../chain/evm/encoding.ts';
import { createRegistrySource } from '../../../chain/evm/registry-source.ts';
import { createTokenSource } from '../../../chain/evm/token-source.ts';
import { parseLinks } from '../../../chain/psyche/links.ts';
import { createPsycheSource } from '../../../chain/psyche/psyche-source.ts';
import { createEventSource } from '../../../chain/rederive.ts';
import { parseStakeList } from '../../../chain/stake-list.ts';
import type { StakeSnapshot } from '../../../run/stake/stake-snapshot.ts';
import type { StakeSource } from '../../../run/stake/stake-source.ts';
import { type AccessFlags, accessOf } from '../../shared/endpoints.ts';
import { orRefuse, readKeys, readText } from '../../shared/files.ts';
import { findOver } from '../../shared/stake-refresh.ts';

/** Where `stake snapshot` takes numbers from. */
export const STAKE_SOURCES = ['file', 'event', 'registry', 'erc20', 'erc5805', 'psyche'] as const;

export interface SnapshotFlags extends AccessFlags {
  readonly from: (typeof STAKE_SOURCES)[number];
  readonly list?: string;
  readonly unit: string;
  readonly id?: string;
  readonly relay: readonly string[];
  readonly contract?: string;
  readonly fromBlock: number;
  readonly height?: number;
  readonly keys?: string;
  readonly balanceSlot?: number;
  readonly chain: string;
  readonly account?: string;
  readonly run?: string;
  readonly epoch?: number;
  readonly weights: 'equal' | 'earned';
  readonly links?: string;
  readonly cutoff?: number;
}

/** The snapshot the flags ask for. */
export async function deriveSnapshot(
  flags: SnapshotFlags,
  signal: AbortSignal,
): Promise<StakeSnapshot> {
  if (flags.from === 'file') {
    const file = needed(flags, 'list', '--list FILE, lines like: npub1… 100');
    return orRefuse(file, parseStakeList(await readText(file), flags.unit));
  }
  return (await sourceFor(flags, signal)).snapshot(0, signal);
}

const sourceFor = (
  flags: SnapshotFlags,
  signal: AbortSignal,
): StakeSource | Promise<StakeSource> => {
  if (flags.from === 'event') return eventSource(flags);
  return flags.from === 'psyche' ? psycheSource(flags) : chainSource(flags, signal);
};

async function psycheSource(flags: SnapshotFlags): Promise<StakeSource> {
  const account = needed(flags, 'account', '--account ADDRESS of the coordinator');
  const run = needed(flags, 'run', '--run NAME of the Psyche run');
  const file = needed(flags, 'links', '--links FILE, a JSON list: docs/stake.md');
  const { chain, weights } = flags;
  const [epoch, cutoff] = [neededNumber(flags, 'epoch'), neededNumber(flags, 'cutoff')];
  const links = orRefuse(file, parseLinks(await readText(file)));
  const place = { account, run, weights, cutoff, links };
  return createPsycheSource({ ...accessOf(flags), chain }, place, { base: epoch, period: 0 });
}

function eventSource(flags: SnapshotFlags): StakeSource {
  const id = needed(flags, 'id', '--id HEX, the id of the snapshot');
  if (!isHex32(id))
    throw new ConfigError('flag/id', `--id ${id} is no snapshot id`, {
      hint: 'give the 64 hex digits that `nostrain stake snapshot` printed',
    });
  return createEventSource(id, findOver(flags.relay));
}

async function chainSource(flags: SnapshotFlags, signal: AbortSignal): Promise<StakeSource> {
  const text = needed(flags, 'contract', '--contract 0x…');
  const contract = dataOf(text, 20);
  if (contract === undefined)
    throw new ConfigError('flag/contract', `--contract ${text} is no contract address`, {
      hint: 'give 0x and 40 hex digits',
    });
  const access = accessOf(flags);
  const spell = (number: number | undefined) => `eip155:${number}`;
  const ask = async (endpoint: (typeof access.endpoints.all)[number]) =>
    numberOf(await endpoint.call('eth_chainId', [], signal));
  const chain = spell(await agree(access.endpoints, 'the chain', ask, spell));
  const final = flags.from === 'erc5805' ? -1 : 0;
  const base =
    flags.height ?? Math.max(0, (await waitFinal({ ...access, chain }, 0, signal)) + final);
  const schedule = { base, period: 0 };
  if (flags.from === 'registry') {
    return createRegistrySource(
      { ...access, chain },
      { contract, from: flags.fromBlock },
      schedule,
    );
  }
  const keys = await readKeys(needed(flags, 'keys', '--keys FILE, one npub per line'));
  const standard = flags.from === 'erc5805' ? 'erc5805' : 'erc20';
  const { balanceSlot } = flags;
  return createTokenSource(
    { ...access, chain },
    { standard, token: contract, keys, balanceSlot },
    schedule,
  );
}

type TextFlag = 'list' | 'id' | 'contract' | 'keys' | 'account' | 'run' | 'links';

function needed(flags: SnapshotFlags, name: TextFlag, how: string): string {
  const value = flags[name];
  if (value !== undefined) return value;
  throw new ConfigError('flag/missing', `--from ${flags.from} needs --${name}`, { hint: how });
}

function neededNumber(flags: SnapshotFlags, name: 'epoch' | 'cutoff'): number {
  const value = flags[name];
  if (value !== undefined) return value;
  throw new ConfigError('flag/missing', `--from ${flags.from} needs --${name} N`, {
    hint: 'docs/stake.md has an example',
  });
}
