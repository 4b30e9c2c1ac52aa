/** Block headers: a header from an endpoint counts only when its fields, written as RLP, hash to the hash it names. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { toHex } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import { dataOf, numberOf, quantityOf } from './hex.ts';
import { bigEndian, encodeRlp } from './rlp.ts';

export interface Header {
  readonly number: number;
  readonly hash: string;
  /** Unix seconds. */
  readonly timestamp: number;
  readonly stateRoot: Uint8Array;
}

/** Fields in the order they are hashed, each with its length; 0 is a quantity, undefined any length. */
const FIELDS: readonly (readonly [string, number | undefined])[] = [
  ['parentHash', 32],
  ['sha3Uncles', 32],
  ['miner', 20],
  ['stateRoot', 32],
  ['transactionsRoot', 32],
  ['receiptsRoot', 32],
  ['logsBloom', 256],
  ['difficulty', 0],
  ['number', 0],
  ['gasLimit', 0],
  ['gasUsed', 0],
  ['timestamp', 0],
  ['extraData', undefined],
  ['mixHash', 32],
  ['nonce', 8],
  ['baseFeePerGas', 0],
  ['withdrawalsRoot', 32],
  ['blobGasUsed', 0],
  ['excessBlobGas', 0],
  ['parentBeaconBlockRoot', 32],
  ['requestsHash', 32],
];
/** Every block has those before; later forks added the others one after the other. */
const FIRST_OPTIONAL = 15;

/** A block of `eth_getBlockByNumber` as a verified header. Header fields of forks unknown here make the hash differ. */
export function readHeader(block: unknown): Result<Header> {
  const broken = (message: string) => refuse('bad-header', 'block', message);
  if (typeof block !== 'object' || block === null) return broken('there is no such block');
  const said = block as Readonly<Record<string, unknown>>;
  const items: Uint8Array[] = [];
  for (const [i, [name, length]] of FIELDS.entries()) {
    const value = said[name];
    if (i >= FIRST_OPTIONAL && (value === undefined || value === null)) continue;
    const item = length === 0 ? integerBytes(value) : dataOf(value, length);
    if (item === undefined) return broken(`the header's ${name} is malformed`);
    items.push(item);
  }
  const hash = toHex(keccak_256(encodeRlp(items)));
  if (said.hash !== `0x${hash}`) {
    return broken(`the header hashes to ${hash}, not to the ${String(said.hash)} it names`);
  }
  const [number, timestamp] = [numberOf(said.number), numberOf(said.timestamp)];
  if (number === undefined || timestamp === undefined) return broken('number or time is too large');
  return ok({ number, hash, timestamp, stateRoot: dataOf(said.stateRoot, 32)! });
}

const integerBytes = (value: unknown): Uint8Array | undefined => {
  const quantity = quantityOf(value);
  return quantity === undefined ? undefined : bigEndian(quantity);
};
