/** `eth_getProof` answers: storage of a contract, proved against the state root of a verified header. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { concatBytes } from '../../base/bytes.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import { dataOf } from './hex.ts';
import { decodeRlp, fromBigEndian, isRlpList } from './rlp.ts';
import { proveTrieValue } from './trie.ts';

/** A storage slot as a 32-byte key. */
export function slotKey(slot: bigint): Uint8Array {
  const out = new Uint8Array(32);
  for (let i = 31, rest = slot; rest > 0n; i--, rest >>= 8n) out[i] = Number(rest & 255n);
  return out;
}

/** Where a mapping keeps the value of a key of at most 32 bytes. */
export function mappingSlot(key: Uint8Array, slot: bigint): Uint8Array {
  const padded = new Uint8Array(32);
  padded.set(key, 32 - key.length);
  return keccak_256(concatBytes(padded, slotKey(slot)));
}

/**
 * What a contract stores under the asked keys, in their order; zero where the trie proves that there is nothing. Only the
 * nodes of the answer are used, never what it says the values are.
 */
export function readStorageProof(
  answer: unknown,
  stateRoot: Uint8Array,
  address: Uint8Array,
  keys: readonly Uint8Array[],
): Result<readonly bigint[]> {
  const broken = (message: string) => refuse('bad-proof', 'proof', message);
  const said = asRecord(answer);
  const accountNodes = nodesOf(said?.accountProof);
  if (said === undefined || accountNodes === undefined) return broken('there is no account proof');
  const account = proveTrieValue(stateRoot, address, accountNodes);
  if (!account.ok) return account;
  if (account.value === undefined) return broken('there is no such account at this block');
  const fields = decodeRlp(account.value);
  const storageRoot =
    fields !== undefined && isRlpList(fields) && fields.length === 4 ? fields[2] : undefined;
  if (!(storageRoot instanceof Uint8Array)) return broken('the account is malformed');
  const proofs = Array.isArray(said.storageProof) ? said.storageProof : [];
  const values: bigint[] = [];
  for (const [i, key] of keys.entries()) {
    const nodes = nodesOf(asRecord(proofs[i])?.proof);
    if (nodes === undefined) return broken(`there is no proof of slot ${i + 1} of ${keys.length}`);
    const stored = proveTrieValue(storageRoot, key, nodes);
    if (!stored.ok) return stored;
    const value = stored.value === undefined ? 0n : integerOf(stored.value);
    if (value === undefined) return broken('a stored value is no integer');
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

const asRecord = (value: unknown): Readonly<Record<string, unknown>> | undefined =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
