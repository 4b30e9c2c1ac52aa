/** As little of the contract ABI as is needed: selectors, calls with words, byte strings and tuples of them, and answers of whole words. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { concatBytes, utf8 } from '../../base/bytes.ts';
import { toData } from './hex.ts';
import { slotKey } from './proof.ts';

/** An integer, or bytes of at most a word that are padded in front as addresses are. */
export type Word = bigint | Uint8Array;

/** What has no fixed length, as it is encoded: it stands after all words, which say where. */
export interface Dynamic {
  readonly encoded: Uint8Array;
}

/** Call data of a function by its signature: `balanceOf(address)`. */
export const callData = (signature: string, ...args: readonly (Word | Dynamic)[]): string =>
  toData(concatBytes(keccak_256(utf8(signature)).subarray(0, 4), encodeTuple(args)));

/** A byte string. */
export function dynamicBytes(bytes: Uint8Array): Dynamic {
  const padded = new Uint8Array(32 * Math.ceil(bytes.length / 32));
  padded.set(bytes);
  return { encoded: concatBytes(word(BigInt(bytes.length)), padded) };
}

/** Values in their order: words in place, and offsets of the others. */
export function encodeTuple(values: readonly (Word | Dynamic)[]): Uint8Array {
  let offset = 32 * values.length;
  const isDynamic = (value: Word | Dynamic): value is Dynamic =>
    typeof value === 'object' && 'encoded' in value;
  const heads = values.map((value) => {
    if (!isDynamic(value)) return word(value);
    const at = word(BigInt(offset));
    offset += value.encoded.length;
    return at;
  });
  return concatBytes(...heads, ...values.filter(isDynamic).map(({ encoded }) => encoded));
}

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
