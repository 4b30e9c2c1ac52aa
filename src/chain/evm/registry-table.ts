/**
 * The registry's table from its events: replayed in sequence, without a gap, into the rolling hash that the chain proves. The
 * block number is part of what is hashed, so one proof at a late block proves the table of every block before it.
 */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { toHex } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import type { WorkerId } from '../../run/ids.ts';
import { MAX_STAKE, type StakeRow, stakeRows } from '../../run/stake-snapshot.ts';
import { encodeWords, eventTopic, wordAt } from './abi.ts';
import type { Log } from './logs.ts';

/** First topic of the registry's only event. */
export const CHANGED = eventTopic('Changed(uint256,bytes32,address,uint256,uint256)');

/** What slots 0 and 1 of the registry say at the block of the proof. */
export interface Accumulator {
  readonly rollingHash: bigint;
  readonly sequence: bigint;
}

/** Rows as of block `height`, or by what the logs differ from the accumulator. */
export function registryRows(
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
    if (change === undefined) return broken(`log ${i + 1} is not of the registry's event`);
    const { npub, funder, total } = change;
    if (change.sequence !== BigInt(i + 1)) {
      return broken(
        `a log is missing or out of order: change ${change.sequence} where ${i + 1} is due`,
      );
    }
    if (change.blockNumber < block)
      return broken(`change ${i + 1} is of an earlier block than the one before`);
    block = change.blockNumber;
    const words = encodeWords(hash, change.sequence, npub, funder, block, total);
    hash = wordAt(keccak_256(words), 0)!;
    if (total > MAX_STAKE) return broken(`change ${i + 1} has a total beyond 2^128`);
    if (block <= BigInt(height)) totals.set(toHex(npub), total);
  }
  if (BigInt(changes.length) !== sequence) {
    return broken(`${changes.length} of ${sequence} changes are there`);
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
