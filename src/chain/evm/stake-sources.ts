/**
 * Stake sources on EVM chains (docs/stake.md). Registry: events, replayed into the rolling hash that a storage proof
 * confirms. Tokens: ERC-20 balances, proved if the storage slot is known, or past votes of ERC-5805.
 */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { concatBytes, fromHex, toHex } from '../../base/bytes.ts';
import { ChainError, ok, type Result, refuse } from '../../base/errors.ts';
import type { WorkerId } from '../../run/ids.ts';
import {
  keyListHash,
  MAX_STAKE,
  type SnapshotSchedule,
  type StakeRow,
  type StakeSource,
  stakeParams,
  stakeRows,
} from '../../run/stake/stake-snapshot.ts';
import { agree, type Endpoint, firstProved } from '../endpoints.ts';
import { blockId, type ChainAccess, createEvmSource, headerAt } from './blocks.ts';
import {
  callData,
  dataOf,
  encodeWords,
  eventTopic,
  numberOf,
  textOf,
  toData,
  toQuantity,
  word,
  wordAt,
} from './encoding.ts';
import { type Header, mappingSlot, readStorageProof } from './proof.ts';

export interface RegistryContract {
  /** 20 bytes. */
  readonly contract: Uint8Array;
  /** Block from which events are read; at most the block of the contract's creation. */
  readonly from: number;
}

/**
 * Returns a registry as a stake source. Needs k endpoints for headers, one of which serves all events and a recent
 * proof.
 */
export function createRegistrySource(
  access: ChainAccess,
  { contract, from }: RegistryContract,
  schedule: SnapshotSchedule,
): StakeSource {
  const address = toData(contract);
  const params = stakeParams({ contract: address, from });
  const name = `registry ${address} on ${access.chain}`;
  const about = { name, strategy: 'registry', params, unit: 'wei' } as const;
  return createEvmSource(access, schedule, about, async (header, final, signal) => {
    const height = header.number;
    // use the newest final block: nodes discard older state, and its proof covers earlier blocks too
    const anchor = final === height ? header : await headerAt(access, final, signal);
    return firstProved(
      access.endpoints,
      `the table of registry ${address} at block ${height}`,
      (endpoint) => provedRows(endpoint, { contract, from }, { anchor, height }, signal),
      'name an endpoint with --rpc that serves eth_getProof at the latest final block and ' +
        'all events',
    );
  });
}

async function provedRows(
  endpoint: Endpoint,
  { contract, from }: RegistryContract,
  { anchor, height }: { readonly anchor: Header; readonly height: number },
  signal: AbortSignal,
): Promise<readonly StakeRow[]> {
  const accumulator = await readAccumulator(endpoint, contract, anchor, signal);
  const query = { address: toData(contract), topic: CHANGED, from, to: anchor.number };
  const rows = registryRows(await readLogs(endpoint, query, signal), accumulator, height);
  if (rows.ok) return rows.value;
  throw new ChainError('chain/unproved', `${endpoint.name}: ${rows.issue.message}`);
}

async function readAccumulator(
  endpoint: Endpoint,
  contract: Uint8Array,
  anchor: Header,
  signal: AbortSignal,
): Promise<Accumulator> {
  const keys = [word(0n), word(1n)];
  const params = [toData(contract), keys.map(toData), blockId(anchor)];
  const answer = await endpoint.call('eth_getProof', params, signal);
  const values = readStorageProof(answer, anchor.stateRoot, contract, keys);
  if (!values.ok)
    throw new ChainError('chain/unproved', `${endpoint.name}: ${values.issue.message}`);
  const [rollingHash, sequence] = values.value;
  return { rollingHash: rollingHash!, sequence: sequence! };
}

export const CHANGED = eventTopic('Changed(uint256,bytes32,address,uint256,uint256)');

/** Storage slots 0 and 1 of the registry at the block of the proof. */
export interface Accumulator {
  readonly rollingHash: bigint;
  readonly sequence: bigint;
}

/** Returns the rows at block `height`, or how the logs differ from the accumulator. */
function registryRows(
  logs: readonly Log[],
  { rollingHash, sequence }: Accumulator,
  height: number,
): Result<readonly StakeRow[]> {
  const broken = (message: string) => refuse('bad-logs', 'logs', message);
  const changes = logs.map(readChange);
  const totals = new Map<WorkerId, bigint>();
  let hash = 0n;
  let block = 0n;
  for (const [i, change] of changes.entries()) {
    if (change === undefined) return broken(`log ${i + 1} is not an event of the registry`);
    const { npub, funder, total } = change;
    if (change.sequence !== BigInt(i + 1)) {
      return broken(
        `a log is missing or out of order: change ${change.sequence} instead of ${i + 1}`,
      );
    }
    if (change.blockNumber < block)
      return broken(`change ${i + 1} is in an earlier block than the one before`);
    block = change.blockNumber;
    const words = encodeWords(hash, change.sequence, npub, funder, block, total);
    hash = wordAt(keccak_256(words), 0)!;
    if (total > MAX_STAKE) return broken(`change ${i + 1} has a total of 2^128 or more`);
    if (block <= BigInt(height)) totals.set(toHex(npub), total);
  }
  if (BigInt(changes.length) !== sequence) {
    return broken(`only ${changes.length} of ${sequence} changes were returned`);
  }
  if (hash !== rollingHash) return broken('the changes do not hash to what the contract stores');
  return ok(stakeRows(totals));
}

interface Change {
  readonly sequence: bigint;
  readonly npub: Uint8Array;
  readonly funder: Uint8Array;
  readonly blockNumber: bigint;
  readonly total: bigint;
}

function readChange({ topics, data, blockNumber: logged }: Log): Change | undefined {
  const [sequence, npub, funder] = topics;
  const [blockNumber, total] = [wordAt(data, 0), wordAt(data, 1)];
  if (sequence === undefined || npub === undefined || funder === undefined) return undefined;
  if (blockNumber === undefined || total === undefined || data.length !== 64) return undefined;
  if (blockNumber !== BigInt(logged)) return undefined;
  return { sequence: wordAt(sequence, 0)!, npub, funder, blockNumber, total };
}

export interface Log {
  readonly blockNumber: number;
  /** Without the topic of the event itself; 32 bytes each. */
  readonly topics: readonly Uint8Array[];
  readonly data: Uint8Array;
}

export interface LogQuery {
  /** Lower-case hex with `0x`. */
  readonly address: string;
  readonly topic: string;
  readonly from: number;
  readonly to: number;
}

const FIRST_RANGE = 10_000;
const MOST_LOGS = 1_000_000;
/** Maximum number of calls: an endpoint that serves only a few blocks per call cannot serve millions. */
const MOST_CALLS = 20_000;

/**
 * Returns logs in the order of the endpoint. Halves the range when a call fails; throws the error if a single block
 * fails.
 */
async function readLogs(
  endpoint: Endpoint,
  { address, topic, from, to }: LogQuery,
  signal: AbortSignal,
): Promise<readonly Log[]> {
  const broken = (why: string) => new ChainError('chain/answer', `${endpoint.name}: ${why}`);
  const logs: Log[] = [];
  let range = FIRST_RANGE;
  let calls = 0;
  for (let start = from; start <= to; ) {
    const end = Math.min(to, start + range - 1);
    const filter = {
      address,
      topics: [topic],
      fromBlock: toQuantity(start),
      toBlock: toQuantity(end),
    };
    if (++calls > MOST_CALLS) throw broken(`incomplete after ${MOST_CALLS} calls`);
    let page: unknown;
    try {
      page = await endpoint.call('eth_getLogs', [filter], signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ChainError) || end === start) throw error;
      range = Math.ceil((end - start + 1) / 2);
      continue;
    }
    if (!Array.isArray(page)) throw broken('logs are not a list');
    for (const each of page) {
      const log = readLog(each, { address, topic, from: start, to: end });
      if (log === undefined) throw broken('a log does not match the query');
      logs.push(log);
    }
    if (logs.length > MOST_LOGS) throw broken(`more than ${MOST_LOGS} logs`);
    start = end + 1;
    range = Math.min(FIRST_RANGE, 2 * range);
  }
  return logs;
}

function readLog(log: unknown, { address, topic, from, to }: LogQuery): Log | undefined {
  if (typeof log !== 'object' || log === null) return undefined;
  const fields = log as Readonly<Record<string, unknown>>;
  const blockNumber = numberOf(fields.blockNumber);
  const data = dataOf(fields.data);
  const list: readonly unknown[] = Array.isArray(fields.topics) ? fields.topics : [];
  const topics = list.map((each) => dataOf(each, 32)).filter((each) => each !== undefined);
  if (blockNumber === undefined || blockNumber < from || blockNumber > to) return undefined;
  if (data === undefined || topics.length !== list.length || list[0] !== topic) return undefined;
  if (String(fields.address).toLowerCase() !== address || fields.removed === true) return undefined;
  return { blockNumber, topics: topics.slice(1), data };
}

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
