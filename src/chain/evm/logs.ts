/** All logs of one event of one contract, in ranges that shrink until the endpoint serves them. Says nothing about completeness. */
import { ChainError } from '../../base/errors.ts';
import type { Endpoint } from '../json-rpc.ts';
import { dataOf, numberOf, toQuantity } from './hex.ts';

export interface Log {
  readonly blockNumber: number;
  /** Without the event's own topic; 32 bytes each. */
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
/** An endpoint that serves a few blocks at a time is of no use for millions of them. */
const MOST_CALLS = 20_000;

/** Logs in the order the endpoint gives them; throws what the endpoint says when it does not even serve one block. */
export async function readLogs(
  endpoint: Endpoint,
  { address, topic, from, to }: LogQuery,
  signal: AbortSignal,
): Promise<readonly Log[]> {
  const logs: Log[] = [];
  let range = FIRST_RANGE;
  let calls = 0;
  for (let start = from; start <= to; ) {
    const end = Math.min(to, start + range - 1);
    const filter = {
      ...{ address, topics: [topic] },
      ...{ fromBlock: toQuantity(start), toBlock: toQuantity(end) },
    };
    if (++calls > MOST_CALLS) {
      throw new ChainError('chain/answer', `${endpoint.name}: not done after ${MOST_CALLS} ranges`);
    }
    let page: unknown;
    try {
      page = await endpoint.call('eth_getLogs', [filter], signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ChainError) || end === start) throw error;
      range = Math.ceil((end - start + 1) / 2);
      continue;
    }
    for (const log of readPage(endpoint, page, { address, topic, from: start, to: end }))
      logs.push(log);
    if (logs.length > MOST_LOGS) {
      throw new ChainError('chain/answer', `${endpoint.name}: more than ${MOST_LOGS} logs`);
    }
    start = end + 1;
    range = Math.min(FIRST_RANGE, 2 * range);
  }
  return logs;
}

function readPage(endpoint: Endpoint, page: unknown, query: LogQuery): readonly Log[] {
  if (!Array.isArray(page))
    throw new ChainError('chain/answer', `${endpoint.name}: logs are no list`);
  return page.map((each: unknown) => {
    const log = readLog(each, query);
    if (log === undefined)
      throw new ChainError('chain/answer', `${endpoint.name}: a log nobody asked for`);
    return log;
  });
}

function readLog(log: unknown, { address, topic, from, to }: LogQuery): Log | undefined {
  if (typeof log !== 'object' || log === null) return undefined;
  const said = log as Readonly<Record<string, unknown>>;
  const blockNumber = numberOf(said.blockNumber);
  const data = dataOf(said.data);
  const list: readonly unknown[] = Array.isArray(said.topics) ? said.topics : [];
  const topics = list.map((each) => dataOf(each, 32)).filter((each) => each !== undefined);
  if (blockNumber === undefined || blockNumber < from || blockNumber > to) return undefined;
  if (data === undefined || topics.length !== list.length || list[0] !== topic) return undefined;
  if (String(said.address).toLowerCase() !== address || said.removed === true) return undefined;
  return { blockNumber, topics: topics.slice(1), data };
}
