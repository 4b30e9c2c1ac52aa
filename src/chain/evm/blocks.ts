/** Final blocks of an EVM chain on which k endpoints agree, for stake snapshots and block beacons. */

import type { Clock } from '../../base/async.ts';
import { ChainError } from '../../base/errors.ts';
import type { BeaconSource } from '../../run/committee.ts';
import {
  heightOf,
  type SnapshotSchedule,
  type StakeRow,
  type StakeSnapshot,
  type StakeSource,
} from '../../run/stake/stake-snapshot.ts';
import { agree, askAll, assertEnough, type Endpoint, type Endpoints } from '../endpoints.ts';
import { numberOf, toQuantity } from './encoding.ts';
import { type Header, readHeader } from './proof.ts';

export interface ChainAccess {
  /** CAIP-2 chain id, such as `eip155:1`. */
  readonly chain: string;
  readonly endpoints: Endpoints;
  readonly clock: Clock;
  /** Maximum time to wait for a block to become final, and the interval between polls. */
  readonly waitMs: number;
  readonly pollMs: number;
}

/** Throws `chain/wrong-chain` if an endpoint serves another chain, `chain/too-few` if fewer than k answer. */
async function assertChain({ chain, endpoints }: ChainAccess, signal: AbortSignal): Promise<void> {
  const answers = await askAll(endpoints, (endpoint) => endpoint.call('eth_chainId', [], signal));
  for (const each of answers) {
    if ('problem' in each) continue;
    const actual = `eip155:${numberOf(each.value)}`;
    if (actual === chain) continue;
    throw new ChainError(
      'chain/wrong-chain',
      `${each.endpoint.name} serves ${actual}, not ${chain}`,
    );
  }
  const problems = answers.flatMap((each) => ('problem' in each ? [each.problem] : []));
  if (answers.length - problems.length >= endpoints.need) return;
  throw new ChainError(
    'chain/too-few',
    `fewer than ${endpoints.need} endpoints answer: ${problems.join('; ')}`,
  );
}

/**
 * Waits until k endpoints report `height` as final. Returns the highest block number that k endpoints report as final.
 */
export async function waitFinal(
  access: ChainAccess,
  height: number,
  signal: AbortSignal,
): Promise<number> {
  const { endpoints, clock, waitMs, pollMs } = access;
  const deadline = clock.now() + waitMs;
  for (;;) {
    const answers = await askAll(endpoints, (endpoint) => finalNumber(endpoint, signal));
    const numbers = answers.flatMap((each) => ('value' in each ? [each.value] : []));
    const final = numbers.sort((a, b) => b - a)[endpoints.need - 1];
    if (final !== undefined && final >= height) return final;
    if (clock.now() + pollMs > deadline) throw notFinal(height, final, answers);
    await clock.sleep(pollMs, signal);
  }
}

function notFinal(
  height: number,
  final: number | undefined,
  answers: readonly ({ readonly problem: string } | object)[],
): ChainError {
  const problems = answers.flatMap((each) => ('problem' in each ? [each.problem] : []));
  const at =
    final === undefined
      ? 'too few endpoints report a final block'
      : `the last final block is ${final}`;
  return new ChainError(
    'chain/not-final',
    [`block ${height} is not final: ${at}`, ...problems].join('; '),
    {
      hint: 'wait, or use an earlier block with --height',
      data: { height, final },
    },
  );
}

async function finalNumber(endpoint: Endpoint, signal: AbortSignal): Promise<number> {
  const block = await endpoint.call('eth_getBlockByNumber', ['finalized', false], signal);
  return verified(endpoint, block).number;
}

/** Returns the header at a height, with the same hash from at least k endpoints. */
export const headerAt = (
  { endpoints }: ChainAccess,
  height: number,
  signal: AbortSignal,
): Promise<Header> =>
  agree(
    endpoints,
    `block ${height}`,
    async (endpoint) => {
      const block = await endpoint.call(
        'eth_getBlockByNumber',
        [toQuantity(height), false],
        signal,
      );
      const header = verified(endpoint, block);
      if (header.number === height) return header;
      throw new ChainError(
        'chain/answer',
        `${endpoint.name} returned block ${header.number} instead of ${height}`,
      );
    },
    ({ hash }) => hash,
  );

function verified(endpoint: Endpoint, block: unknown): Header {
  const header = readHeader(block);
  if (header.ok) return header.value;
  throw new ChainError('chain/answer', `${endpoint.name}: ${header.issue.message}`);
}

/** Block reference for state queries (EIP-1898): a reorganized block fails instead of answering for another one. */
export const blockId = ({ hash }: Header) => ({ blockHash: `0x${hash}`, requireCanonical: true });

interface EvmSnapshots extends Pick<StakeSnapshot, 'strategy' | 'params' | 'unit'> {
  readonly name: string;
  /** Number of later blocks that must be final too. */
  readonly later?: number;
}

/** Returns a stake source that reads rows with `rowsAt` at the final header of an epoch. */
export function createEvmSource(
  access: ChainAccess,
  schedule: SnapshotSchedule,
  { name, later = 0, ...about }: EvmSnapshots,
  rowsAt: (header: Header, final: number, signal: AbortSignal) => Promise<readonly StakeRow[]>,
): StakeSource {
  assertEnough(access.endpoints);
  return {
    name,
    async snapshot(epoch, signal) {
      const height = heightOf(schedule, epoch);
      await assertChain(access, signal);
      const final = await waitFinal(access, height + later, signal);
      const header = await headerAt(access, height, signal);
      const rows = await rowsAt(header, final, signal);
      return { chain: access.chain, ...about, height, blockHash: header.hash, rows };
    },
  };
}

/** Returns a beacon from the first block at least `lagSeconds` after an outcome. */
export function createBlockBeacon(access: ChainAccess, lagSeconds: number): BeaconSource {
  const { chain, endpoints } = access;
  let isKnown = false;
  return {
    name: `blocks of ${chain} at ${endpoints.all.map(({ name }) => name).join(', ')}`,
    async after(time, signal) {
      if (!isKnown) await assertChain(access, signal);
      isKnown = true;
      const { hash, number } = await firstSince(access, time + lagSeconds, signal);
      return { block: hash, height: number };
    },
  };
}

async function firstSince(
  access: ChainAccess,
  since: number,
  signal: AbortSignal,
): Promise<Header> {
  const height = await waitFinal(access, 0, signal);
  let first = await headerAt(access, height, signal);
  if (first.timestamp < since) {
    const late = since - first.timestamp;
    throw new ChainError(
      'chain/not-final',
      `the last final block is ${height}, ${late} s too early`,
      { hint: 'wait' },
    );
  }
  // blocks before `below` are too early; the search doubles its steps back until one is, then bisects
  let below = 0;
  for (let step = 1; first.number > below; step *= 2) {
    const header = await headerAt(access, Math.max(below, first.number - step), signal);
    if (header.timestamp >= since) first = header;
    else below = header.number + 1;
    if (header.timestamp < since) break;
  }
  while (first.number > below) {
    const header = await headerAt(access, Math.floor((below + first.number) / 2), signal);
    if (header.timestamp >= since) first = header;
    else below = header.number + 1;
  }
  return first;
}
