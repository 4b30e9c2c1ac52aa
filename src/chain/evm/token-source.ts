/** Stake source for balances of a token (ERC-20, ERC-5805): reads them at a block, by calls or by storage proofs. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { concatBytes, fromHex } from '../../base/bytes.ts';
import { ChainError } from '../../base/errors.ts';
import type { WorkerId } from '../../run/ids.ts';
import {
  keyListHash,
  type SnapshotSchedule,
  type StakeSource,
  stakeParams,
  stakeRows,
} from '../../run/stake/stake-snapshot.ts';
import { agree, type Endpoint, firstProved } from '../endpoints.ts';
import { blockId, type ChainAccess, createEvmSource, headerAt } from './blocks.ts';
import { callData, dataOf, textOf, toData, wordAt } from './encoding.ts';
import { type Header, mappingSlot, readStorageProof } from './proof.ts';

export interface TokenContract {
  readonly standard: 'erc20' | 'erc5805';
  /** 20 bytes. */
  readonly token: Uint8Array;
  /** Storage slot of the token's mapping from account to balance; only for ERC-20, makes balances provable. */
  readonly balanceSlot?: number | undefined;
  /** Keys whose balances count; each has its own EVM account. */
  readonly keys: readonly WorkerId[];
}

/** Number of parallel calls, and of keys in one proof. */
const AT_ONCE = 16;

interface Account {
  readonly key: WorkerId;
  readonly address: Uint8Array;
}

/** Returns a source of stake snapshots from the balances of a token contract (ERC-20, ERC-5805). */
export function createTokenSource(
  access: ChainAccess,
  contract: TokenContract,
  schedule: SnapshotSchedule,
): StakeSource {
  const { standard, token, balanceSlot, keys } = contract;
  const accounts = accountsOf(keys);
  const isVotes = standard === 'erc5805';
  const about = {
    name: `${standard} ${toData(token)} on ${access.chain}`,
    strategy: standard,
    params: stakeParams({
      token: toData(token),
      keys: keyListHash(keys),
      ...(balanceSlot !== undefined && { balanceSlot }),
    }),
    unit: isVotes ? 'votes' : 'token',
    // a token answers only for a past timepoint
    later: isVotes ? 1 : 0,
  };
  return createEvmSource(access, schedule, about, async (header, final, signal) => {
    const read = await readerOf(access, contract, header, final, signal);
    const stakes: [WorkerId, bigint][] = [];
    for (let i = 0; i < accounts.length; i += AT_ONCE) {
      const some = accounts.slice(i, i + AT_ONCE);
      const balances = await read(some);
      for (const [j, { key }] of some.entries()) stakes.push([key, balances[j]!]);
    }
    return stakeRows(stakes);
  });
}

function accountsOf(keys: readonly WorkerId[]): readonly Account[] {
  return [...new Set(keys)].map((key) => {
    const address = evmAddress(key);
    if (address !== undefined) return { key, address };
    throw new ChainError('chain/key', `${key} is not a public key, so it has no account`);
  });
}

type Reader = (accounts: readonly Account[]) => Promise<readonly bigint[]>;

async function readerOf(
  access: ChainAccess,
  { standard, token, balanceSlot }: TokenContract,
  header: Header,
  final: number,
  signal: AbortSignal,
): Promise<Reader> {
  if (standard === 'erc20' && balanceSlot !== undefined) {
    return (accounts) => provedBalances(access, { token, balanceSlot, accounts }, header, signal);
  }
  if (standard === 'erc20') {
    const balanceOf = ({ address }: Account) => callData('balanceOf(address)', address);
    return callReader(access, token, header, signal, balanceOf);
  }
  const anchor = await headerAt(access, final, signal);
  const timepoint = await timepointOf(access, token, { header, anchor }, signal);
  const votesOf = ({ address }: Account) =>
    callData('getPastVotes(address,uint256)', address, timepoint);
  return callReader(access, token, anchor, signal, votesOf);
}

const STATE_HINT =
  'name endpoints with --rpc that keep the state of that block, or get the snapshot as a file';

function callReader(
  { endpoints }: ChainAccess,
  token: Uint8Array,
  at: Header,
  signal: AbortSignal,
  dataFor: (account: Account) => string,
): Reader {
  const integer = async (endpoint: Endpoint, data: string) => {
    const answer = await ethCall(endpoint, token, data, at, signal);
    const value = answer.length === 32 ? wordAt(answer, 0) : undefined;
    if (value !== undefined) return value;
    throw new ChainError(
      'chain/answer',
      `${endpoint.name}: the contract does not return an integer`,
    );
  };
  const balance = (account: Account) => {
    const ask = (endpoint: Endpoint) => integer(endpoint, dataFor(account));
    return agree(endpoints, `the balance of ${account.key}`, ask, String, STATE_HINT);
  };
  return (accounts) => Promise.all(accounts.map(balance));
}

/** Returns the ERC-6372 clock value at the block of the snapshot: its number or its timestamp. */
async function timepointOf(
  { endpoints }: ChainAccess,
  token: Uint8Array,
  { header, anchor }: { readonly header: Header; readonly anchor: Header },
  signal: AbortSignal,
): Promise<bigint> {
  const ask = async (endpoint: Endpoint) =>
    textOf(await ethCall(endpoint, token, callData('CLOCK_MODE()'), anchor, signal)) ?? '';
  const mode = await agree(endpoints, 'the clock of the token', ask, String, STATE_HINT);
  if (mode === 'mode=blocknumber&from=default') return BigInt(header.number);
  if (mode === 'mode=timestamp' && anchor.timestamp > header.timestamp) {
    return BigInt(header.timestamp);
  }
  if (mode === 'mode=timestamp') {
    throw new ChainError('chain/not-final', `no final block is later than block ${header.number}`, {
      hint: 'try again after the next final block',
    });
  }
  throw new ChainError(
    'chain/clock',
    `the token has the unknown clock mode ${JSON.stringify(mode)}`,
  );
}

async function ethCall(
  endpoint: Endpoint,
  to: Uint8Array,
  data: string,
  at: Header,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const answer = dataOf(
    await endpoint.call('eth_call', [{ to: toData(to), data }, blockId(at)], signal),
  );
  if (answer !== undefined) return answer;
  throw new ChainError('chain/answer', `${endpoint.name}: eth_call does not return bytes`);
}

interface Slots {
  readonly token: Uint8Array;
  readonly balanceSlot: number;
  readonly accounts: readonly Account[];
}

const provedBalances = (
  { endpoints }: ChainAccess,
  { token, balanceSlot, accounts }: Slots,
  header: Header,
  signal: AbortSignal,
): Promise<readonly bigint[]> =>
  firstProved(
    endpoints,
    `balances at block ${header.number}`,
    async (endpoint) => {
      const keys = accounts.map(({ address }) => mappingSlot(address, BigInt(balanceSlot)));
      const params = [toData(token), keys.map(toData), blockId(header)];
      const answer = await endpoint.call('eth_getProof', params, signal);
      const values = readStorageProof(answer, header.stateRoot, token, keys);
      if (values.ok) return values.value;
      throw new ChainError('chain/unproved', `${endpoint.name}: ${values.issue.message}`);
    },
    STATE_HINT,
  );

const EVEN = Uint8Array.of(2);

/** Returns the 20-byte EVM account of the point with this x and even y; undefined if there is no such point. */
export function evmAddress(key: WorkerId): Uint8Array | undefined {
  const x = fromHex(key);
  if (x?.length !== 32) return undefined;
  try {
    const point = secp256k1.Point.fromBytes(concatBytes(EVEN, x)).toBytes(false);
    return keccak_256(point.subarray(1)).subarray(12);
  } catch {
    return undefined;
  }
}
