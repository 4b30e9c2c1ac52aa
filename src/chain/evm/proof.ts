/** Verifies state of an EVM chain: headers by their hash, and storage by Merkle-Patricia proofs. */

import { keccak_256 } from '@noble/hashes/sha3.js';
import { toHex } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { isObject } from '../../base/shape.ts';
import {
  bigEndian,
  dataOf,
  decodeRlp,
  encodeRlp,
  encodeWords,
  fromBigEndian,
  isRlpList,
  numberOf,
  quantityOf,
  type Rlp,
} from './encoding.ts';

export interface Header {
  readonly number: number;
  readonly hash: string;
  /** Unix seconds. */
  readonly timestamp: number;
  readonly stateRoot: Uint8Array;
}

/** Header fields in hashing order with their length in bytes; 0 is a quantity, undefined any length. */
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
/** Index of the first optional field: later forks appended fields one by one. */
const FIRST_OPTIONAL = 15;

/** Returns a block of `eth_getBlockByNumber` as a verified header. Fields of unknown forks make the hash differ. */
export function readHeader(block: unknown): Result<Header> {
  const broken = (message: string) => refuse('bad-header', 'block', message);
  if (typeof block !== 'object' || block === null) return broken('there is no such block');
  const claimed = block as Readonly<Record<string, unknown>>;
  const items: Uint8Array[] = [];
  for (const [i, [name, length]] of FIELDS.entries()) {
    const value = claimed[name];
    if (i >= FIRST_OPTIONAL && (value === undefined || value === null)) continue;
    const item = length === 0 ? integerBytes(value) : dataOf(value, length);
    if (item === undefined) return broken(`the header's ${name} is malformed`);
    items.push(item);
  }
  const hash = toHex(keccak_256(encodeRlp(items)));
  if (claimed.hash !== `0x${hash}`) {
    return broken(`the header hashes to ${hash}, not to the ${String(claimed.hash)} it names`);
  }
  const [number, timestamp] = [numberOf(claimed.number), numberOf(claimed.timestamp)];
  if (number === undefined || timestamp === undefined) return broken('number or time is too large');
  return ok({ number, hash, timestamp, stateRoot: dataOf(claimed.stateRoot, 32)! });
}

const integerBytes = (value: unknown): Uint8Array | undefined => {
  const quantity = quantityOf(value);
  return quantity === undefined ? undefined : bigEndian(quantity);
};

/** Returns the storage slot of a mapping's value for a key of at most 32 bytes. */
export const mappingSlot = (key: Uint8Array, slot: bigint): Uint8Array =>
  keccak_256(encodeWords(key, slot));

/**
 * Returns the values that a contract stores under these keys, zero if the trie proves absence. Uses only the proof
 * nodes of the answer, never the values it claims.
 */
export function readStorageProof(
  answer: unknown,
  stateRoot: Uint8Array,
  address: Uint8Array,
  keys: readonly Uint8Array[],
): Result<readonly bigint[]> {
  const broken = (message: string) => refuse('bad-proof', 'proof', message);
  const claimed = isObject(answer) ? answer : {};
  const accountNodes = nodesOf(claimed.accountProof);
  if (accountNodes === undefined) return broken('there is no account proof');
  const account = proveTrieValue(stateRoot, address, accountNodes);
  if (!account.ok) return account;
  if (account.value === undefined) return broken('there is no such account at this block');
  const fields = decodeRlp(account.value);
  const storageRoot =
    fields !== undefined && isRlpList(fields) && fields.length === 4 ? fields[2] : undefined;
  if (!(storageRoot instanceof Uint8Array)) return broken('the account is malformed');
  const proofs: readonly unknown[] = Array.isArray(claimed.storageProof)
    ? claimed.storageProof
    : [];
  const values: bigint[] = [];
  for (const [i, key] of keys.entries()) {
    const claim = proofs[i];
    const nodes = isObject(claim) ? nodesOf(claim.proof) : undefined;
    if (nodes === undefined) return broken(`there is no proof for slot ${i + 1} of ${keys.length}`);
    const stored = proveTrieValue(storageRoot, key, nodes);
    if (!stored.ok) return stored;
    const value = stored.value === undefined ? 0n : integerOf(stored.value);
    if (value === undefined) return broken('a stored value is not an integer');
    values.push(value);
  }
  return ok(values);
}

function integerOf(bytes: Uint8Array): bigint | undefined {
  const item = decodeRlp(bytes);
  return item instanceof Uint8Array ? fromBigEndian(item) : undefined;
}

function nodesOf(list: unknown): readonly Uint8Array[] | undefined {
  if (!Array.isArray(list)) return undefined;
  const nodes = list.map((node) => dataOf(node)).filter((node) => node !== undefined);
  return nodes.length === list.length ? nodes : undefined;
}

/** Limits of a proof: a path has at most 64 steps, a node at most 17 references of 33 bytes. */
const MAX_NODES = 130;
const MAX_NODE_BYTES = 4096;

const EMPTY_ROOT = toHex(keccak_256(encodeRlp(new Uint8Array(0))));
const ABSENT = ok(undefined);

/**
 * Returns the value under a key, or undefined if the trie proves that the key has no value. Refuses nodes that do
 * not lead from the root to either; nodes off the path are ignored.
 */
export function proveTrieValue(
  root: Uint8Array,
  key: Uint8Array,
  nodes: readonly Uint8Array[],
): Result<Uint8Array | undefined> {
  const broken = (message: string) => refuse('bad-proof', 'proof', message);
  if (nodes.length > MAX_NODES || nodes.some((node) => node.length > MAX_NODE_BYTES)) {
    return broken('more or larger nodes than a path can have');
  }
  if (toHex(root) === EMPTY_ROOT) return ABSENT;
  const byHash = new Map(nodes.map((node) => [toHex(keccak_256(node)), node]));
  const path = nibblesOf(keccak_256(key));
  let reference: Rlp = root;
  for (let at = 0; ; ) {
    const node = open(reference, byHash);
    if (node === undefined)
      return broken('a node of the path is missing or does not match its hash');
    if (node.length === 17) {
      if (at === path.length) return stored(node[16]!);
      reference = node[path[at++]!]!;
    } else {
      const compact = node.length === 2 ? compactPath(node[0]!) : undefined;
      if (compact === undefined) return broken('a node is neither branch, extension nor leaf');
      const { nibbles, isLeaf } = compact;
      const isOurs = nibbles.every((nibble, i) => path[at + i] === nibble);
      at += nibbles.length;
      if (isLeaf) return isOurs && at === path.length ? stored(node[1]!) : ABSENT;
      if (!isOurs) return ABSENT;
      if (nibbles.length === 0) return broken('an extension node has an empty path');
      reference = node[1]!;
    }
    if (!isRlpList(reference) && reference.length === 0) return ABSENT;
  }
}

const stored = (item: Rlp): Result<Uint8Array | undefined> => {
  if (isRlpList(item)) return refuse('bad-proof', 'proof', 'a value is a list');
  return item.length === 0 ? ABSENT : ok(item);
};

/**
 * Returns the node of a reference: the reference itself if it is small enough to be embedded, otherwise the node with
 * that hash.
 */
function open(reference: Rlp, byHash: ReadonlyMap<string, Uint8Array>): readonly Rlp[] | undefined {
  if (isRlpList(reference)) return encodeRlp(reference).length < 32 ? reference : undefined;
  const node = reference.length === 32 ? byHash.get(toHex(reference)) : undefined;
  const item = node && decodeRlp(node);
  return item !== undefined && isRlpList(item) ? item : undefined;
}

/** Decodes the hex-prefix encoding: a flag for leaves, a flag for odd length, then the nibbles. */
function compactPath(item: Rlp): { nibbles: readonly number[]; isLeaf: boolean } | undefined {
  if (isRlpList(item) || item.length === 0) return undefined;
  const [flags, second, ...rest] = nibblesOf(item);
  if (flags! > 3 || (flags! % 2 === 0 && second !== 0)) return undefined;
  return { nibbles: flags! % 2 === 1 ? [second!, ...rest] : rest, isLeaf: flags! >= 2 };
}

const nibblesOf = (bytes: Uint8Array): number[] =>
  [...bytes].flatMap((byte) => [byte >> 4, byte & 15]);
