/**
 * Stake source of a registry on an EVM chain (docs/stake.md): its events, replayed into the rolling hash that a storage
 * proof confirms. token-source.ts reads balances of tokens.
 */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { toHex } from '../../base/bytes.ts';
import { ChainError, ok, type Result, refuse } from '../../base/errors.ts';
import type { WorkerId } from '../../run/ids.ts';
import {
  MAX_STAKE,
  type SnapshotSchedule,
  type StakeRow,
  type StakeSource,
  stakeParams,
  stakeRows,
} from '../../run/stake/stake-snapshot.ts';
import { type Endpoint, firstProved } from '../endpoints.ts';
import { blockId, type ChainAccess, createEvmSource, headerAt } from './blocks.ts';
import {
  dataOf,
  encodeWords,
  eventTopic,
  numberOf,
  toData,
  toQuantity,
  word,
  wordAt,
} from './encoding.ts';
import { type Header, readStorageProof } from './proof.ts';

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
