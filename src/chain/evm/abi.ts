/** As little of the contract ABI as is needed: selectors, and calls whose arguments and answers are whole words. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { concatBytes, utf8 } from '../../base/bytes.ts';
import { toData } from './hex.ts';
import { slotKey } from './proof.ts';

/** An integer, or bytes of at most a word that are padded in front as addresses are. */
export type Word = bigint | Uint8Array;

/** Call data of a function by its signature: `balanceOf(address)`. */
export const callData = (signature: string, ...args: readonly Word[]): string =>
  toData(concatBytes(keccak_256(utf8(signature)).subarray(0, 4), ...args.map(word)));

/** First topic of an event. */
export const eventTopic = (signature: string): string => toData(keccak_256(utf8(signature)));

/** Words as `abi.encode` puts them. */
export const encodeWords = (...words: readonly Word[]): Uint8Array =>
  concatBytes(...words.map(word));

function word(value: Word): Uint8Array {
  if (typeof value === 'bigint') return slotKey(value);
  const out = new Uint8Array(32);
  out.set(value, 32 - value.length);
  return out;
}

/** The word at a place in an answer, or undefined beyond its end. */
export function wordAt(bytes: Uint8Array, index: number): bigint | undefined {
  const part = bytes.subarray(32 * index, 32 * index + 32);
  return part.length === 32
    ? part.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
    : undefined;
}

/** The text an answer is, or undefined: one `string`, short. */
export function textOf(bytes: Uint8Array): string | undefined {
  const length = wordAt(bytes, 1);
  if (wordAt(bytes, 0) !== 32n || length === undefined || length > 256n) return undefined;
  const text = bytes.subarray(64, 64 + Number(length));
  return text.length === Number(length) ? String.fromCharCode(...text) : undefined;
}
